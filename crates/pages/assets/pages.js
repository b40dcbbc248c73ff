// Keeps a page of a running application up to date: asks for it again when the server says that something changed. What the
// reader is doing (a selection, an open list, a field) is never taken away. Without this script a page is as it was when it was loaded.
(() => {
  const url = document.body.dataset.events, application = document.body.dataset.application;
  const state = document.getElementById("live");
  const button = document.getElementById("pause");
  if (!url || !state || !button || !window.EventSource) return;
  // A page that takes long to make is asked for less often; who was refused asks again later and later.
  let known = document.body.dataset.state;
  const EVERY_MS = 2000, PATIENCE = 30, AGAIN_MS = 2000, AGAIN_AT_MOST_MS = 60000;
  let every = EVERY_MS, again = AGAIN_MS, timer = null;
  let paused = false, wanted = false, busy = false, over = false, last = Date.now(), source = null, shown = new Date();

  const clock = () => shown.toISOString().slice(11, 19);
  const say = () => {
    state.textContent = over ? "Over, as of " + clock() : paused ? "Paused at " + clock()
      : wanted && isUsed() ? "Held while text is marked or typed, as of " + clock() : source && source.readyState === 1 ? "Live, as of " + clock() : "Not connected, as of " + clock();
  };
  const isUsed = () => {
    const active = document.activeElement;
    return active && active.closest("main") && /^(INPUT|SELECT|TEXTAREA)$/.test(active.tagName) || String(document.getSelection()) !== "";
  };

  // What a reader can open, focus, scroll or fill in, by what stays the same in the next version of the page.
  const named = (root) => {
    const counts = new Map(), all = new Map();
    root.querySelectorAll("details, summary, a, button, input, select, textarea, pre, .scroll").forEach((it) => {
      const part = it.closest("[data-key]");
      const name = [part ? part.dataset.key : "", it.tagName, it.id, it.getAttribute("name"), it.getAttribute("href")].join("\n");
      const count = counts.get(name) || 0;
      counts.set(name, count + 1);
      all.set(name + "\n" + count, it);
    });
    return all;
  };
  const isChanged = (it) => it.tagName === "SELECT" ? [...it.options].some((option) => option.selected !== option.defaultSelected)
    : "defaultValue" in it && it.type !== "hidden" && it.value !== it.defaultValue;
  const held = (old, next) => {
    const fresh = named(next), all = [];
    named(old).forEach((was, name) => {
      const is = fresh.get(name);
      if (is) all.push({ was, is, left: was.scrollLeft, top: was.scrollTop, hadFocus: was === document.activeElement });
    });
    return all;
  };
  const restore = ({ was, is, left, top, hadFocus }) => {
    if (is.tagName === "DETAILS") is.open = was.open;
    if (isChanged(was)) is.value = was.value;
    if (left) is.scrollLeft = left;
    if (top) is.scrollTop = top;
    if (hadFocus) is.focus({ preventScroll: true });
  };

  const replace = (text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const next = fresh.getElementById("main"), old = document.getElementById("main");
    if (!next) return;
    // Another application took the place of this one: its head is another, too.
    if (fresh.body.dataset.application !== application) return location.reload();
    const all = held(old, next);
    old.replaceChildren(...next.childNodes);
    all.forEach(restore);
    const badge = document.getElementById("state"), now = fresh.getElementById("state");
    if (badge && now) badge.replaceChildren(...now.childNodes);
    shown = new Date();
    if (!fresh.body.dataset.events) end();
  };

  const refresh = async () => {
    if (wanted && isUsed()) say();
    if (busy || paused || document.hidden || !wanted || isUsed() || Date.now() - last < every) return;
    busy = true; wanted = false; last = Date.now();
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      const text = answer.ok ? await answer.text() : null;
      every = Math.max(EVERY_MS, PATIENCE * (Date.now() - last));
      // Meanwhile the reader may have begun to type.
      if (text !== null && isUsed()) wanted = true; else if (text !== null) replace(text);
      // A proxy in front could not reach the application.
      if (answer.status >= 500) { wanted = true; every = again; }
    } catch (error) {
      wanted = true;
    }
    busy = false;
    say();
  };

  // Only pages that can be seen hold a connection: a browser has six to one host.
  const disconnect = () => {
    clearTimeout(timer);
    if (source) source.close();
    source = null;
  };
  const end = () => { over = true; disconnect(); say(); };
  const connect = () => {
    disconnect();
    if (over || document.hidden) return;
    source = new EventSource(url);
    source.onopen = say;
    source.onerror = () => {
      // A browser tries again by itself after a connection that broke, and never after a refusal.
      if (source && source.readyState === EventSource.CLOSED) {
        timer = setTimeout(connect, again * (1 + Math.random() / 2));
        again = Math.min(again * 2, AGAIN_AT_MOST_MS);
      }
      say();
    };
    const told = (event) => {
      const [now, whose] = event.data.split(" ");
      again = AGAIN_MS;
      // Who paused reads on; another application is there when they go on.
      if (whose !== application) return paused || location.reload();
      if (now !== known) { wanted = true; known = now; refresh(); }
      say();
    };
    source.addEventListener("hello", told);
    source.addEventListener("changed", told);
    source.addEventListener("over", end);
  };

  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Go on" : "Pause";
    if (!paused) { wanted = true; refresh(); }
    say();
  });
  document.addEventListener("visibilitychange", () => {
    if (over) return;
    if (document.hidden) { disconnect(); } else { wanted = true; again = AGAIN_MS; connect(); refresh(); }
  });
  setInterval(refresh, 500);
  connect();
  say();
})();
