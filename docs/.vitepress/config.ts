import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig, type DefaultTheme } from 'vitepress';
import { miniSearch, withQuestions } from './search.js';
import llmstxt, { copyOrDownloadAsMarkdownButtons } from 'vitepress-plugin-llms';

const { homepage, repository } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  homepage: string;
  repository: { url: string };
};
const site = new URL(homepage);
const github = repository.url.replace(/^git\+|\.git$/g, '');

const docs = fileURLToPath(new URL('..', import.meta.url));

/** Made by TypeDoc: `npm run x -- docs:build` runs it first. */
const [entry] = JSON.parse(readFileSync(join(docs, 'api/typedoc-sidebar.json'), 'utf8')) as DefaultTheme.SidebarItem[];

const sidebar: DefaultTheme.SidebarItem[] = [
  {
    text: 'Begin',
    items: [
      { text: 'Getting started', link: '/getting-started' },
      { text: 'How do I …?', link: '/how-do-i' },
      { text: 'Testing', link: '/testing' },
      { text: 'Contract tests', link: '/contract-tests' },
      { text: 'The doctor', link: '/doctor' },
      { text: 'Troubleshooting', link: '/troubleshooting' },
      { text: 'Migrating from mcp-nest', link: '/migrating-from-mcp-nest' },
      { text: 'After migrating', link: '/migrating-behaviour' },
    ],
  },
  {
    text: 'Write handlers',
    items: [
      { text: 'Handlers', link: '/handlers' },
      { text: 'Tools', link: '/tools' },
      { text: 'Parameters and context', link: '/parameters' },
      { text: 'Schemas', link: '/schemas' },
      { text: 'Results', link: '/tool-results' },
      { text: 'Progress', link: '/progress' },
      { text: 'Routes as tools', link: '/routes-as-tools' },
      { text: 'Resources', link: '/resources' },
      { text: 'Prompts and completion', link: '/prompts' },
      { text: 'Guards, pipes, interceptors', link: '/guards-and-pipes' },
      { text: 'Errors of handlers', link: '/handler-errors' },
      { text: 'Time and concurrency', link: '/handler-limits' },
      { text: 'Questions', link: '/questions' },
      { text: 'Tools with effects', link: '/tools-with-effects' },
      { text: 'Handlers at run time', link: '/run-time-handlers' },
      { text: 'Tools per caller', link: '/tools-per-caller' },
      { text: 'Calling tools from within', link: '/calling-tools' },
      { text: 'Several endpoints', link: '/several-endpoints' },
      { text: 'Plugins', link: '/plugins' },
    ],
  },
  {
    text: 'Build',
    items: [
      { text: 'Tasks', link: '/tasks' },
      { text: 'Skills', link: '/skills' },
      { text: 'Extensions and views', link: '/extensions' },
      { text: 'Sessions', link: '/sessions' },
      { text: 'The session service', link: '/session-service' },
      { text: 'Streams and resumption', link: '/streams-and-resumption' },
      { text: 'State and caching', link: '/state' },
      { text: 'Both eras', link: '/both-eras' },
      { text: 'A server of the SDK', link: '/own-server' },
      { text: 'The client', link: '/client' },
      {
        text: 'Recipes',
        link: '/recipes',
        collapsed: true,
        items: [
          { text: 'API keys', link: '/recipes/api-keys' },
          { text: 'Databases', link: '/recipes/databases' },
          { text: 'Downstream APIs', link: '/recipes/downstream-apis' },
          { text: 'Identity providers', link: '/recipes/identity-providers' },
          { text: 'Containers and Kubernetes', link: '/recipes/kubernetes' },
          { text: 'Queues', link: '/recipes/queues' },
          { text: 'Sentry, PostHog, Observe', link: '/recipes/monitoring' },
          { text: 'Tenants', link: '/recipes/tenants' },
          { text: 'An agent inside your app', link: '/recipes/in-app-agent' },
          { text: 'Jest in CommonJS', link: '/recipes/jest' },
        ],
      },
      { text: 'stdio', link: '/stdio' },
      { text: 'Without the module', link: '/using-the-session-without-the-module' },
    ],
  },
  {
    text: 'Secure',
    items: [
      { text: 'Security', link: '/security' },
      { text: 'The endpoint in your app', link: '/endpoint-in-your-app' },
      { text: 'Limits of callers', link: '/caller-limits' },
      { text: 'Authentication', link: '/authentication' },
      { text: 'Access tokens', link: '/access-tokens' },
      { text: 'Scopes of handlers', link: '/scopes' },
    ],
  },
  {
    text: 'Operate',
    items: [
      { text: 'Deployment', link: '/deployment' },
      { text: 'Server card and registry', link: '/server-card' },
      { text: 'Off by default', link: '/off-by-default' },
      { text: 'Several nodes', link: '/several-nodes' },
      { text: 'Redis', link: '/redis' },
      { text: 'Operations', link: '/operations' },
      { text: 'Traces and metrics', link: '/traces-and-metrics' },
      { text: 'Audit', link: '/audit' },
      { text: 'The live page', link: '/live-page' },
      { text: 'Custom stores', link: '/custom-stores' },
    ],
  },
  {
    text: 'Look up',
    items: [
      { text: 'Options', link: '/options' },
      { text: 'Errors', link: '/errors' },
      { text: 'Rough edges', link: '/rough-edges' },
      { text: 'Performance', link: '/performance' },
      { text: 'Compatibility', link: '/compatibility' },
      { text: 'Comparison', link: '/comparison' },
      { text: 'API reference', link: '/api/' },
    ],
  },
  {
    text: 'The code',
    collapsed: true,
    items: [
      { text: 'Architecture', link: '/architecture' },
      { text: 'The path of a call', link: '/path-of-a-call' },
      { text: 'Protocol rules', link: '/protocol-rules' },
      { text: 'Decisions', link: '/decisions/README' },
      { text: 'Glossary', link: '/glossary' },
    ],
  },
];

export default defineConfig({
  title: 'nestjs-mcp-streamable',
  description: 'An MCP server inside your NestJS app: Streamable HTTP, sessions, resumable streams, guards.',
  // GitHub Pages serves the site in a folder.
  base: site.pathname,
  head: [
    ['link', { rel: 'icon', type: 'image/svg+xml', href: `${site.pathname}logo.svg` }],
    ['meta', { name: 'theme-color', content: '#c4163f' }],
    ['meta', { property: 'og:type', content: 'website' }],
    ['meta', { property: 'og:site_name', content: 'nestjs-mcp-streamable' }],
  ],
  sitemap: { hostname: homepage },
  // llms.txt, llms-full.txt, and each page as Markdown beside it. The API reference repeats the pages.
  vite: {
    // Its types are those of another Vite than VitePress has.
    plugins: [llmstxt({ domain: site.origin, ignoreFiles: ['api/**'], sidebar: { '/': flat(sidebar) } }) as never],
  },
  outDir: '../build/docs',
  cacheDir: '../build/docs-cache',
  cleanUrls: true,
  lastUpdated: false,
  transformPageData: ({ relativePath, frontmatter }) => {
    // Pages of TypeDoc are not in the repository: there is nothing to edit.
    if (relativePath.startsWith('api/')) return { frontmatter: { ...frontmatter, editLink: false } };
    // Its drawings are as wide as the page.
    if (relativePath === 'path-of-a-call.md') frontmatter['aside'] = false;
    return { description: firstParagraph(readFileSync(join(docs, relativePath), 'utf8')) };
  },
  markdown: {
    // The same anchors as on GitHub, where the pages are read too.
    anchor: { slugify: githubSlug },
    config: (md) => {
      // Its types are those of another markdown-it.
      md.use(copyOrDownloadAsMarkdownButtons as never);
      const render =
        md.renderer.rules.link_open ?? ((tokens, at, options, _env, self) => self.renderToken(tokens, at, options));
      md.renderer.rules.link_open = (tokens, at, options, env: { relativePath: string }, self) => {
        const token = tokens[at]!;
        const outside = outsideOfDocs(token.attrGet('href') ?? '', env.relativePath);
        if (outside !== undefined) token.attrSet('href', `${github}/blob/main/${outside}`);
        return render(tokens, at, options, env, self);
      };
      // The page shows the picture of its own scheme.
      const image = md.renderer.rules.image!;
      md.renderer.rules.image = (...args) => inBothSchemes(image(...args));
      const block = md.renderer.rules.html_block!;
      md.renderer.rules.html_block = (...args) => inBothSchemes(block(...args));
      // A wide table scrolls in a box of its own.
      md.renderer.rules.table_open = () => '<div class="table" tabindex="0"><table>';
      md.renderer.rules.table_close = () => '</table></div>';
      const text = md.renderer.rules.text!;
      md.renderer.rules.text = (...args) =>
        text(...args).replaceAll(UNBROKEN, (words) => `<span class="unbroken">${words}</span>`);
      const code = md.renderer.rules.code_inline!;
      md.renderer.rules.code_inline = (tokens, at, ...rest) => {
        if (tokens[at]!.content.length <= 20) tokens[at]!.attrJoin('class', 'unbroken');
        return code(tokens, at, ...rest);
      };
      const fence = md.renderer.rules.fence!;
      md.renderer.rules.fence = (tokens, at, ...rest) => {
        const html = fence(tokens, at, ...rest);
        return DRAWING.test(tokens[at]!.content) ? html.replace('class="', 'class="drawing ') : html;
      };
    },
  },
  themeConfig: {
    logo: '/logo.svg',
    search: {
      provider: 'local',
      options: {
        miniSearch,
        _render: (source, env: { relativePath: string; frontmatter?: { search?: boolean } }, md) => {
          const html = md.render(source, env);
          return env.frontmatter?.search === false ? '' : withQuestions(html, env.relativePath);
        },
      },
    },
    nav: [
      { text: 'Guide', link: '/getting-started' },
      { text: 'Options', link: '/options' },
      { text: 'API', link: '/api/' },
      { text: 'Troubleshooting', link: '/troubleshooting' },
    ],
    sidebar: { '/': sidebar, '/api/': entries(entry!) },
    outline: [2, 3],
    socialLinks: [{ icon: 'github', link: github }],
    editLink: { pattern: `${github}/edit/main/docs/:path` },
    notFound: {
      quote: 'The page may have moved. The search above finds it by its words.',
      linkText: 'To the first page',
    },
    footer: { message: 'MIT License' },
  },
});

/** Revisions of MCP and measured values: a line does not end within. */
const UNBROKEN = /\b20\d\d-\d\d-\d\d\b|\b[\d.,]+ (?:µs|ms|s|MB|kB|KiB|MiB)(?!\w)/gu;

/** Code that draws boxes and arrows, and so must not wrap. */
const DRAWING = /[│├└┌▶]/u;

/** Returns a group for each entry of the package. TypeDoc puts the others into that of the main entry, after its own names. */
function entries({ items = [], ...main }: DefaultTheme.SidebarItem): DefaultTheme.SidebarItem[] {
  const own = items.filter(({ link }) => link === undefined);
  const others = items.filter(({ link }) => link !== undefined);
  return [{ ...main, text: 'main entry', items: own }, ...others.map((each) => ({ ...each, text: `…/${each.text}` }))];
}

/** Returns groups without groups in them: the plugin for llms.txt forgets `base` in those. */
function flat(groups: DefaultTheme.SidebarItem[]): DefaultTheme.SidebarItem[] {
  return groups.flatMap(({ items = [], ...group }) => [
    { ...group, items: items.map(({ items: _, ...item }) => item) },
    ...flat(items.filter((item) => item.items !== undefined)),
  ]);
}

/** Returns the first paragraph of a page as text. It says what the page is for. */
function firstParagraph(markdown: string): string | undefined {
  const paragraph = /^# .+\n\n(?<text>[A-Z][^]*?)\n\n/m.exec(markdown)?.groups?.['text'];
  return paragraph
    ?.replaceAll(/\[([^\]]+)\]\([^)]*\)/g, '$1')
    .replaceAll(/[`*]|\n/g, (mark) => (mark === '\n' ? ' ' : ''));
}

/** Puts the picture `…-dark.png` beside each picture `…-light.png`; the theme hides one of the two. */
function inBothSchemes(html: string): string {
  return html.replaceAll(/<img [^>]*-light\.png"[^>]*>/g, (light) => {
    const dark = light.replace('-light.png', '-dark.png');
    return light.replace('<img', '<img class="light-only"') + dark.replace('<img', '<img class="dark-only"');
  });
}

/** A heading as GitHub makes an anchor of it. */
function githubSlug(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
    .trim()
    .replaceAll(' ', '-');
}

/** Where in the repository a link leads that leaves the folder of the pages: sources, tests, examples. */
function outsideOfDocs(href: string, page: string): string | undefined {
  if (/^[a-z]+:|^[#/]/i.test(href)) return undefined;
  const { pathname, hash } = new URL(href, `file:///docs/${page}`);
  return pathname.startsWith('/docs/') ? undefined : `${pathname.slice(1)}${hash}`;
}
