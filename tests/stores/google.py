"""Google Cloud Storage's XML language in front of moto's S3, which is the same but for three things: who asks proves it
by a token that a service account's key has signed; what must not be there yet is said by a generation; and there is
no region. Prints its port and that key, and ends when its standard input does."""

import base64, json, os, sys, threading, time
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
moto = DomainDispatcherApplication(create_backend_app)

def bytes_of(text):
    return base64.urlsafe_b64decode(text + '=' * (-len(text) % 4))

def is_ours(bearer):
    try:
        head, claims, signature = bearer.split('.')
        key.public_key().verify(bytes_of(signature), f'{head}.{claims}'.encode(), padding.PKCS1v15(), hashes.SHA256())
    except (ValueError, InvalidSignature):
        return False
    claims = json.loads(bytes_of(claims))
    return claims['iss'] == 'tests@example' and claims['exp'] > time.time() and 'cloud-platform' in claims['scope']

def google(environ, start):
    bearer = environ.get('HTTP_AUTHORIZATION', '')
    if bearer.startswith('Bearer'):
        if not is_ours(bearer[7:]) and not os.environ.get('OPEN'):
            start('401 Unauthorized', [('Content-Type', 'application/xml')])
            return [b'<Error><Code>AuthenticationRequired</Code><Message>no.</Message></Error>']
        # moto looks at who asks, not at the signature.
        scope = 'Credential=testkey/20260101/us-east-1/s3/aws4_request'
        environ['HTTP_AUTHORIZATION'] = f'AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0'
    if environ.get('HTTP_X_GOOG_IF_GENERATION_MATCH') == '0':
        environ['HTTP_IF_NONE_MATCH'] = '*'
    return moto(environ, start)

server = make_server('127.0.0.1', 0, google, threaded=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(json.dumps({'port': server.port, 'key': pem.decode()}), flush=True)
sys.stdin.read()
