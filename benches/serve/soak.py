"""Sends many requests over many connections, kills some of them, and watches the server's memory and answers.

    soak.py PROGRAM MODEL [REQUESTS] [IDLE]

IDLE connections stay open and silent meanwhile. Fails if an answer is lost or wrong, or if memory grows.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import time

program, model = sys.argv[1:3]
requests = int(sys.argv[3]) if len(sys.argv) > 3 else 200_000
idle = int(sys.argv[4]) if len(sys.argv) > 4 else 10_000
CLIENTS = 64


def request(body, close=False):
    body = json.dumps(body).encode()
    head = f"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def read(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    return int(head.split(b" ")[1]), await reader.readexactly(length)


async def connect(port):
    return await asyncio.open_connection("127.0.0.1", port)


def memory(process):
    for line in open(f"/proc/{process.pid}/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) // 1024


async def main():
    server = subprocess.Popen(
        [program, "serve", "-m", model, "--listen", "127.0.0.1:0", "--client-timeout", "3600"], stderr=subprocess.PIPE, text=True
    )
    port = None
    while port is None:
        line = server.stderr.readline()
        if not line:
            raise SystemExit("the server did not start")
        if line.startswith("listening on "):
            port = int(line.rsplit(":", 1)[1])
    asyncio.get_running_loop().run_in_executor(None, server.stderr.read)

    texts = [f"text {number} " + "word " * (number % 20) for number in range(50)]
    reader, writer = await connect(port)
    writer.write(request({"inputs": texts}))
    status, body = await read(reader)
    assert status == 200, body
    expected = json.loads(body)
    writer.close()

    silent = [await connect(port) for _ in range(idle)]
    left, killed, sizes = requests, 0, []

    async def client(seed):
        nonlocal left, killed
        chance = random.Random(seed)
        reader, writer = await connect(port)
        while left > 0:
            left -= 1
            if chance.random() < 0.01:
                # It goes away in the middle: of its request, or while it waits.
                whole = request({"inputs": texts})
                writer.write(whole[: chance.randrange(1, len(whole) + 1)])
                await writer.drain()
                writer.transport.abort()
                killed += 1
                reader, writer = await connect(port)
                continue
            number = chance.randrange(len(texts))
            writer.write(request({"inputs": texts[number]}))
            status, body = await read(reader)
            assert status == 200 and json.loads(body) == [expected[number]], (status, body[:200])
        writer.close()

    async def watch():
        while left > 0:
            sizes.append(memory(server))
            await asyncio.sleep(max(1, requests / 20_000))

    start = time.time()
    await asyncio.gather(watch(), *(client(seed) for seed in range(CLIENTS)))
    took = time.time() - start
    print(f"{requests} requests ({killed} clients killed, {len(silent)} idle connections) in {took:.0f} s: {requests / took:.0f}/s")
    print(f"memory in MiB: {sizes[:: max(1, len(sizes) // 10)]}, at the end {memory(server)}")
    server.terminate()
    assert server.wait(60) == 0, server.returncode
    third = len(sizes) // 3
    before, after = max(sizes[: max(1, third)]), max(sizes[2 * third :])
    assert after <= before * 1.05 + 16, f"memory grew from {before} to {after} MiB"


if __name__ == "__main__":
    import resource

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    random.seed(1)
    asyncio.run(main())
