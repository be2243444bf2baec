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
    text: 'Start',
    items: [
      { text: 'Getting started', link: '/getting-started' },
      { text: 'Routes as tools', link: '/routes-as-tools' },
      { text: 'The endpoint in your app', link: '/endpoint-in-your-app' },
      { text: 'Testing', link: '/testing' },
      { text: 'How do I …?', link: '/how-do-i' },
      { text: 'For coding agents', link: '/agents' },
    ],
  },
  {
    text: 'Write handlers',
    items: [
      { text: 'Tools', link: '/tools' },
      { text: 'Arguments and schemas', link: '/schemas' },
      { text: 'Results', link: '/tool-results' },
      { text: 'Resources and prompts', link: '/resources' },
      { text: 'Questions, progress, effects', link: '/questions' },
      { text: 'Guards, errors and limits', link: '/guards-and-pipes' },
    ],
  },
  {
    text: 'Secure',
    items: [
      { text: 'Security', link: '/security' },
      { text: 'Authentication', link: '/authentication' },
      { text: 'Identity providers, API keys', link: '/identity-providers' },
      { text: 'Tools per caller', link: '/tools-per-caller' },
      { text: 'Limits of callers', link: '/caller-limits' },
      { text: 'Audit', link: '/audit' },
    ],
  },
  {
    text: 'Operate',
    items: [
      { text: 'Deployment', link: '/deployment' },
      { text: 'Several nodes', link: '/several-nodes' },
      { text: 'Capacity', link: '/capacity' },
      { text: 'Operations', link: '/operations' },
      { text: 'Traces and metrics', link: '/traces-and-metrics' },
      { text: 'The live page', link: '/live-page' },
      { text: 'Troubleshooting', link: '/troubleshooting' },
    ],
  },
  {
    text: 'Extend',
    items: [
      { text: 'Recipes', link: '/recipes' },
      { text: 'Sessions and state', link: '/sessions' },
      { text: 'Streams and resumption', link: '/streams-and-resumption' },
      { text: 'Tasks', link: '/tasks' },
      { text: 'Skills, views, server card', link: '/extensions' },
      { text: 'Plugins', link: '/plugins' },
      { text: 'Stores', link: '/custom-stores' },
      { text: 'Calling servers and tools', link: '/client' },
      { text: 'stdio and other ways to serve', link: '/stdio' },
    ],
  },
  {
    text: 'Reference',
    items: [
      { text: 'Options', link: '/options' },
      { text: 'Errors', link: '/errors' },
      { text: 'Compatibility', link: '/compatibility' },
      { text: 'Performance', link: '/performance' },
      { text: 'Comparison', link: '/comparison' },
      { text: 'Migrating from mcp-nest', link: '/migrating-from-mcp-nest' },
      { text: 'API reference', link: '/api/' },
    ],
  },
  {
    text: 'Inside',
    collapsed: true,
    items: [
      { text: 'Architecture', link: '/architecture' },
      { text: 'The path of a call', link: '/path-of-a-call' },
      { text: 'Protocol rules', link: '/protocol-rules' },
      { text: 'Decisions', link: '/decisions' },
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
