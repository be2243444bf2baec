/**
 * A view in one document, without a build: the protocol of MCP Apps is JSON-RPC by `postMessage`, and this view needs five of its
 * messages. A larger one bundles the class `App` of `@modelcontextprotocol/ext-apps` instead.
 */
export const CHART = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Sales</title>
<style>
  body { margin: 0; padding: 12px; font: 14px system-ui, sans-serif; color: #1f2937; background: #fff; }
  body.dark { color: #e5e7eb; background: #111827; }
  h1 { margin: 0 0 8px; font-size: 15px; font-weight: 600; }
  svg { display: block; width: 100%; height: 180px; }
  rect { fill: #2563eb; }
  text { fill: currentColor; font-size: 11px; text-anchor: middle; }
  button { margin-top: 8px; }
</style>
<h1 id="title">Waiting for the result…</h1>
<svg id="chart" viewBox="0 0 400 180" role="img" aria-labelledby="title"></svg>
<button id="previous" hidden>The year before</button>
<script>
  const byId = (id) => document.getElementById(id);
  const waiting = new Map();
  let lastId = 0;
  let shown;

  const send = (message) => parent.postMessage({ jsonrpc: '2.0', ...message }, '*');
  const notify = (method, params = {}) => send({ method, params });
  const request = (method, params) =>
    new Promise((resolve, reject) => {
      const id = ++lastId;
      waiting.set(id, { resolve, reject });
      send({ id, method, params });
    });

  addEventListener('message', ({ source, data }) => {
    // Only the host speaks to the view.
    if (source !== parent || data?.jsonrpc !== '2.0') return;
    const { id, method, params, result, error } = data;
    if (method === undefined) {
      const { resolve, reject } = waiting.get(id) ?? {};
      waiting.delete(id);
      if (error) reject?.(new Error(error.message));
      else resolve?.(result);
    } else if (id !== undefined) {
      // "ping" and "ui/resource-teardown": there is nothing to tidy up.
      send({ id, result: {} });
    } else if (method === 'ui/notifications/tool-result') {
      draw(params);
    } else if (method === 'ui/notifications/host-context-changed') {
      adopt(params);
    }
  });

  function adopt({ theme } = {}) {
    if (theme) document.body.classList.toggle('dark', theme === 'dark');
  }

  function draw({ structuredContent, isError, content }) {
    byId('previous').hidden = Boolean(isError);
    if (isError) return void (byId('title').textContent = content[0].text);
    shown = structuredContent;
    const { year, months } = shown;
    byId('title').textContent = 'Sales of ' + year;
    const most = Math.max(...months.map(({ sold }) => sold));
    byId('chart').replaceChildren(...months.flatMap(({ month, sold }, at) => {
      const width = 400 / months.length;
      const height = Math.round((sold / most) * 140);
      return [
        shape('rect', { x: at * width + 4, y: 160 - height, width: width - 8, height }),
        shape('text', { x: (at + 0.5) * width, y: 174 }, month),
        shape('text', { x: (at + 0.5) * width, y: 154 - height }, String(sold)),
      ];
    }));
    notify('ui/notifications/size-changed', { height: document.documentElement.offsetHeight });
  }

  function shape(name, attributes, text = '') {
    const made = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
    made.textContent = text;
    return made;
  }

  byId('previous').addEventListener('click', async () => {
    draw(await request('tools/call', { name: 'show_sales', arguments: { year: shown.year - 1 } }));
  });

  request('ui/initialize', {
    protocolVersion: '2026-01-26',
    appInfo: { name: 'sales-chart', version: '1.0.0' },
    appCapabilities: {},
  }).then(({ hostContext }) => {
    adopt(hostContext);
    notify('ui/notifications/initialized');
  });
</script>
</html>
`;
