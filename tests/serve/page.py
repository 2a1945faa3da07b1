"""Uses the server's page in a headless Chromium, as a person with a keyboard does.

page.py CHROMIUM PROFILE reads a list of visits from standard input, each with a `url`, a `text` for the box, perhaps
`documents` for the second box, and the name of a file for a `screenshot`. It prints what it found, in JSON. The browser is
driven by its own protocol over two pipes, so nothing but Python is needed.
"""

import base64
import fcntl
import json
import os
import subprocess
import sys

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-dev-shm-usage --remote-debugging-pipe --host-resolver-rules=MAP%20evil.example%20127.0.0.1"
)
# Modifiers of the protocol.
CONTROL = 2
SHIFT = 8

# Resolves once `found()` gives something.
UNTIL = """
new Promise((resolve) => {
  const found = () => { %s };
  const look = () => { const one = found(); if (one) { observer.disconnect(); resolve(one); } };
  const observer = new MutationObserver(look);
  observer.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
  look();
})
"""

# The least contrast of a text with the ground that it stands on, and that text.
CONTRAST = """
(() => {
  const parts = (color) => {
    const all = color.match(/[0-9.]+/g).map(Number);
    return { rgb: all.slice(0, 3), alpha: all.length > 3 ? all[3] : 1 };
  };
  const light = ({ rgb }) => {
    const [r, g, b] = rgb.map((it) => it / 255).map((it) => (it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const color = parts(getComputedStyle(one).backgroundColor);
      if (color.alpha === 1) return color;
    }
    throw new Error("no ground");
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let least = { ratio: 99, text: "" };
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (node.textContent.trim() === "" || !element.checkVisibility() || element.closest("script,style,noscript")) continue;
    const [one, other] = [light(parts(getComputedStyle(element).color)), light(ground(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < least.ratio) least = { ratio, text: node.textContent.trim() };
  }
  return least;
})()
"""

# What happens to a script, a request to elsewhere, and markup in a text.
HOSTILE = """
(async () => {
  const violations = [];
  const refused = new Promise((resolve) => document.addEventListener("securitypolicyviolation", (event) => {
    violations.push(event.effectiveDirective);
    if (event.effectiveDirective === "connect-src") resolve();
  }));
  const script = document.createElement("script");
  try { script.text = "window.hostile = true"; } catch { script.append("window.hostile = true"); }
  document.body.append(script);
  const elsewhere = location.origin.replace("127.0.0.1", "localhost");
  const asked = await fetch(elsewhere + "/health", { mode: "no-cors" }).then(() => true, () => false);
  if (!asked) await refused;
  script.remove();
  return { ran: window.hostile === true, asked, violations: [...new Set(violations)].sort() };
})()
"""


class Browser:
    """A browser, and its one tab."""

    def __init__(self, program, profile):
        # The browser reads from 3 and writes to 4.
        high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for pair in (os.pipe(), os.pipe()) for end in pair]
        own_in, self.to_browser, self.from_browser, own_out = high

        def place():
            os.dup2(own_in, 3)
            os.dup2(own_out, 4)

        flags = [flag.replace("%20", " ") for flag in FLAGS.split()]
        self.process = subprocess.Popen(
            [program, *flags, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(3, 4),
            preexec_fn=place,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(own_in)
        os.close(own_out)
        self.buffer = b""
        self.events = []
        self.number = 0
        self.session = None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self.ask(f"{domain}.enable")

    def read(self):
        while b"\0" not in self.buffer:
            part = os.read(self.from_browser, 1 << 16)
            if not part:
                raise SystemExit("the browser has ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def ask(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise SystemExit(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, event):
        """Waits for an event that has not come yet."""
        while not any(one.get("method") == event for one in self.events):
            self.events.append(self.read())

    def run(self, expression):
        answer = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise SystemExit(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, body):
        return self.run(UNTIL % body)

    def key(self, key, code, modifiers=0, text=None):
        event = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        pressed = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
        self.ask("Input.dispatchKeyEvent", **event, **pressed)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **event)

    def open(self, url):
        self.events.clear()
        self.ask("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")

    def close(self):
        self.session = None
        self.ask("Browser.close")
        self.process.wait()


def names(browser):
    """What a screen reader says of the parts that can be used or have a heading's weight, as `role: name`."""
    roles = ("textbox", "combobox", "button", "link", "region", "group", "heading", "table", "main", "list")
    found = []
    for node in browser.ask("Accessibility.getFullAXTree")["nodes"]:
        role = node.get("role", {}).get("value")
        if not node["ignored"] and role in roles:
            found.append((role, node.get("name", {}).get("value", "")))
    return found


def texts(browser, selector):
    return browser.run(f"Array.from(document.querySelectorAll({json.dumps(selector)}), (it) => it.textContent)")


def visit(browser, wanted):
    browser.open(wanted["url"])
    if "evil" in wanted["url"]:
        return {"title": browser.run("document.title"), "body": browser.run("document.body.textContent")}
    found = {"error": browser.until("return document.querySelector('#facts dd') ? 'none' : document.querySelector('#error').textContent")}
    # From the page's beginning: the box is the first stop.
    browser.key("Tab", 9)
    stops = [browser.run("document.activeElement.id")]
    browser.ask("Input.insertText", text=wanted["text"])
    if "documents" in wanted:
        browser.key("Tab", 9)
        stops.append(browser.run("document.activeElement.id"))
        browser.ask("Input.insertText", text=wanted["documents"])
    browser.key("Enter", 13, CONTROL)
    found["status"] = browser.until(
        "const error = document.querySelector('#error').textContent;"
        "const status = document.querySelector('#status').textContent;"
        "return error !== '' ? error : status.startsWith('Done') ? 'done' : '';"
    )
    found["focus"] = browser.run(
        "getComputedStyle(document.activeElement).outlineStyle + ' ' + getComputedStyle(document.activeElement).outlineWidth"
    )
    for _ in range(20):
        browser.key("Tab", 9)
        stop = browser.run(
            "((it) => (it === document.body ? '' : it.id || it.textContent.trim()))(document.activeElement)"
        )
        if stop in ("", *stops):
            break
        stops.append(stop)
    found["stops"] = stops
    found["facts"] = texts(browser, "#facts dd")
    found["tokens"] = texts(browser, "#tokens-list li span:first-child")
    found["ids"] = texts(browser, "#tokens-list .id")
    found["numbers"] = browser.run("document.querySelector('#numbers-list').textContent")
    found["rows"] = [row.split("\t") for row in browser.run(
        "Array.from(document.querySelectorAll('#rows-list tr'), (row) => Array.from(row.cells, (it) => it.textContent).join('\\t'))"
    )]
    found["commands"] = texts(browser, "#commands pre")
    found["names"] = names(browser)
    found["title"] = browser.run("document.title")
    for scheme in ("light", "dark"):
        browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        found[scheme] = {**browser.run(CONTRAST), "ground": browser.run("getComputedStyle(document.body).backgroundColor")}
    browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    sizes = {"height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.ask("Emulation.setDeviceMetricsOverride", width=320, **sizes)
    found["overflow"] = browser.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if "screenshot" in wanted:
        browser.ask("Emulation.setDeviceMetricsOverride", width=860, **sizes)
        browser.run("document.activeElement.blur(), scrollTo(0, 0)")
        picture = browser.ask("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        with open(wanted["screenshot"], "wb") as file:
            file.write(base64.b64decode(picture))
    browser.ask("Emulation.clearDeviceMetricsOverride")
    # Before anything is done against the policy.
    found["faults"] = [
        event["params"]
        for event in browser.events
        if event.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
    ]
    found["hostile"] = browser.run(HOSTILE)
    found["requests"] = sorted(
        {event["params"]["request"]["url"] for event in browser.events if event.get("method") == "Network.requestWillBeSent"}
    )
    return found


browser = Browser(*sys.argv[1:])
print(json.dumps([visit(browser, wanted) for wanted in json.load(sys.stdin)]))
browser.close()
