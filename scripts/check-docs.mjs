// `npm run x -- docs:check`: builds the documentation site, then looks at each page in Chromium as wide as a phone: none scrolls sideways,
// none loads anything from elsewhere, and the search finds a word without a network.
import { createReadStream, existsSync, readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { chromium } from 'playwright-core';
import { root } from './build.mjs';
import { buildDocs } from './docs.mjs';

if (!process.argv.includes('--built')) buildDocs();

const site = join(root, 'build/docs');
const TYPES = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.woff2': 'font/woff2',
  '.json': 'application/json',
};
const WIDTH = 400;
/** The folder in which the site is served, as `homepage` in package.json has it. */
const base = new URL(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).homepage).pathname;

/** The pages, and the files beside them; as hosts of static files do it, `/options` is options.html. */
const server = createServer((request, response) => {
  const path = decodeURIComponent(new URL(request.url, 'http://site').pathname).replace(/\/$/, '/index');
  const file = [path, `${path}.html`]
    .map((each) => join(site, each.slice(base.length)))
    .find((each) => extname(each) !== '' && existsSync(each));
  if (file === undefined || !path.startsWith(base)) {
    response.writeHead(404).end();
    return;
  }
  response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' });
  createReadStream(file).pipe(response);
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const origin = `http://127.0.0.1:${server.address().port}`;

const pages = readdirSync(site, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.html') && name !== '404.html')
  .map((name) => `${base}${name.replaceAll('\\', '/').replace(/(?:index)?\.html$/, '')}`);

const executablePath = [process.env.CHROMIUM_PATH, '/usr/bin/chromium', '/usr/bin/chromium-browser'].find(
  (path) => path !== undefined && existsSync(path),
);
if (executablePath === undefined)
  throw new Error('Needs Chromium: install the package chromium, or set CHROMIUM_PATH.');
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
const faults = [];
for (const name of ['llms.txt', 'llms-full.txt', 'sitemap.xml', 'getting-started.md']) {
  if (!existsSync(join(site, name))) faults.push(`The build has not made ${name}.`);
}

/** A page as wide as a phone, which may load nothing from elsewhere. */
async function openPage(options) {
  const page = await browser.newPage({ viewport: { width: WIDTH, height: 800 }, ...options });
  page.on('pageerror', (error) => faults.push(`${page.url()}: ${error.message}`));
  page.on('response', (response) => {
    if (response.status() >= 400) faults.push(`${response.url()}: ${response.status()}`);
  });
  await page.route(
    (url) => url.origin !== origin,
    (route) => {
      faults.push(`${page.url()} asks for ${route.request().url()}`);
      return route.abort();
    },
  );
  return page;
}

try {
  // What is served is complete without scripts, and looked at faster.
  const still = await openPage({ javaScriptEnabled: false });
  for (const path of pages) {
    await still.goto(origin + path);
    const width = await still.evaluate(() => document.documentElement.scrollWidth);
    if (width > WIDTH) faults.push(`${path} is ${width} pixels wide, on a screen of ${WIDTH}`);
  }
  const page = await openPage();
  await page.goto(`${origin}${base}getting-started`, { waitUntil: 'networkidle' });
  await page.keyboard.press('Control+k');
  await page.fill('#localsearch-input', 'allowedHosts');
  await page.waitForSelector('.VPLocalSearchBox .result', { timeout: 10_000 });
} finally {
  await browser.close();
  server.close();
}
if (faults.length > 0) throw new Error(`${faults.length} faults in the documentation site:\n${faults.join('\n')}`);
console.log(`${pages.length} pages: none wider than ${WIDTH} pixels, no external resources, the search works.`);
