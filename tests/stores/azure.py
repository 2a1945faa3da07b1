"""Azure's blobs as its own clients ask for them, signed with the account's key: azure.py URL ACCOUNT KEY CONTAINER, and
`make`; `list`, which prints the names and then how many uploads are neither complete nor gone; `get`, `put` NAME FILE;
or `remove` NAME ...."""

import base64, email.utils, hashlib, hmac, sys, urllib.request
import xml.etree.ElementTree as xml

url, account, key, container, act, *rest = sys.argv[1:]
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

def ask(method, name='', body=b'', **query):
    path = f'/{account}/{container}' + (f'/{name}' if name else '')
    headers = {'x-ms-date': email.utils.formatdate(usegmt=True), 'x-ms-version': '2021-08-06'}
    if body:
        headers['x-ms-blob-type'] = 'BlockBlob'
    length, kind = (str(len(body)), 'application/octet-stream') if body else ('', '')
    signed = [method, '', '', length, '', kind, '', '', '', '', '', '']
    signed += [f'{name}:{value}' for name, value in sorted(headers.items())]
    signed += [f'/{account}{path}'] + [f'{name}:{value}' for name, value in sorted(query.items())]
    digest = hmac.new(base64.b64decode(key), '\n'.join(signed).encode(), hashlib.sha256).digest()
    headers['Authorization'] = f'SharedKey {account}:{base64.b64encode(digest).decode()}'
    if body:
        headers['Content-Type'] = kind
    asked = '&'.join(f'{name}={value}' for name, value in query.items())
    request = urllib.request.Request(f'{url}{path}?{asked}', method=method, headers=headers, data=body or None)
    with opener.open(request) as answer:
        return answer.read()

def names(**more):
    found = xml.fromstring(ask('GET', restype='container', comp='list', **more))
    return [name.text for name in found.iter('Name')]

if act == 'make':
    ask('PUT', restype='container')
elif act == 'list':
    found = names()
    print(*found, len(names(include='uncommittedblobs')) - len(found), sep='\n')
elif act == 'get':
    open(rest[1], 'wb').write(ask('GET', rest[0]))
elif act == 'put':
    ask('PUT', rest[0], open(rest[1], 'rb').read())
else:
    for name in rest:
        ask('DELETE', name)
