// `npm run x -- docs:check`: builds the documentation site, then looks at each page in Chromium as wide as a phone: none scrolls sideways,
// none loads anything from elsewhere, and the search finds a word without a network. The search finds the page that answers each question
// of docs/how-do-i.md among its first three, that page itself not counted.
import { createReadStream, existsSync, readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import MiniSearch from 'minisearch';
import { chromium } from 'playwright-core';
import { miniSearch, questions } from '../docs/.vitepress/search.js';
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

/** Loads the index as the page does. @returns the pages that the search finds, the best first */
async function searchOfSite() {
  const chunks = join(site, 'assets/chunks');
  const name = readdirSync(chunks).find((each) => each.startsWith('@localSearchIndexroot'));
  const { default: json } = await import(
    `data:text/javascript;base64,${readFileSync(join(chunks, name)).toString('base64')}`
  );
  const fields = { fields: ['title', 'titles', 'text'], storeFields: ['title', 'titles'] };
  const index = MiniSearch.loadJSON(json, {
    ...fields,
    ...miniSearch.options,
    searchOptions: miniSearch.searchOptions,
  });
  return (question) => index.search(question).map(({ id }) => id.slice(base.length).replace(/(?:\.html)?#.*$/, ''));
}

/** Words alone that readers type, and the pages that they look for. */
const WORDS = {
  cors: ['security'],
  docker: ['deployment'],
  lambda: ['sessions'],
  nx: ['compatibility'],
  image: ['tool-results'],
  timeoutMs: ['guards-and-pipes', 'options'],
  'api key': ['identity-providers'],
  health: ['operations'],
  'rate limit': ['recipes'],
  audit: ['audit'],
};

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
const faults = [];
const found = await searchOfSite();
/** @type {[string, string[]][]} */
const asked = [
  ...questions().map(({ question, targets }) => [question, targets.map(({ page }) => page)]),
  ...Object.entries(WORDS),
];
for (const [question, wanted] of asked) {
  const first = [...new Set(found(question).filter((page) => page !== 'how-do-i'))].slice(0, 3);
  if (!first.some((page) => wanted.includes(page)))
    faults.push(`The search for "${question}" finds ${first.join(', ')} before ${wanted.join(', ')}.`);
}
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
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
console.log(
  `${pages.length} pages: none wider than ${WIDTH} pixels, no external resources; the search answers ${asked.length} questions.`,
);
