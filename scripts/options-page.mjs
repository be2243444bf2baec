// `npm run x -- docs:options`: docs/options.md from the doc comments of the options. A test compares the two.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { root } from './build.mjs';

/** The page in its order: a heading, an introduction, and the interfaces whose properties are the options. */
const SECTIONS = [
  {
    title: 'The server',
    about: 'These options describe the server, and replace its parts.',
    interfaces: [
      ['src/mcp-streamable.options.ts', 'McpStreamableOptions'],
      ['src/server/server.options.ts', 'McpServerOption'],
    ],
  },
  {
    title: 'The module',
    about:
      'Nest must know these options before the app starts. In `forRootAsync()`, write them beside `useFactory`, not into its result.',
    interfaces: [['src/core/http/endpoint-extras.ts', 'McpStreamableExtras']],
  },
  {
    title: 'HTTP',
    about: 'These options decide which requests the endpoint accepts, and how it answers them.',
    interfaces: [
      ['src/core/http/edge/host-origin.ts', 'HostOriginOptions'],
      ['src/core/http/http.options.ts', 'McpHttpOptions'],
      ['src/core/calls/response.options.ts', 'McpResponseOptions'],
    ],
  },
  {
    title: 'Sessions and calls',
    about:
      'These options decide how sessions behave, how calls are answered, and how many there may be. See [sessions](sessions.md).',
    interfaces: [['src/core/sessions/session.options.ts', 'McpSessionOptions']],
  },
  {
    title: 'Eras of the protocol',
    about: 'See [both eras](compatibility.md#both-eras).',
    interfaces: [['src/core/eras/protocol.options.ts', 'McpProtocolOptions']],
  },
  {
    title: 'Handlers',
    about: 'See [handlers](tools.md#kinds-of-handlers).',
    interfaces: [['src/core/handlers/handlers.options.ts', 'McpHandlerOptions']],
  },
  {
    title: 'Questions of handlers',
    about: 'These options apply to revision 2026-07-28. See [questions](questions.md#the-state).',
    interfaces: [['src/core/questions/request-state.options.ts', 'McpRequestStateOptions']],
  },
  {
    title: 'Extensions',
    about: 'See [extensions](extensions.md).',
    interfaces: [['src/core/methods/capabilities.ts', 'McpExtensionOptions']],
  },
  {
    title: 'The server card',
    about: 'See [the server card](extensions.md#the-server-card-and-the-registry).',
    interfaces: [['src/card/server-card.options.ts', 'McpServerCardOption']],
  },
  {
    title: 'State that outlives a call',
    about: 'See [state](sessions.md#state-and-caching).',
    interfaces: [['src/core/questions/state/state.options.ts', 'McpStateOptions']],
  },
  {
    title: 'Authentication',
    about: 'See [authentication](authentication.md).',
    interfaces: [['src/auth/auth.options.ts', 'McpAuthOption']],
  },
  {
    title: 'Properties of `auth`',
    about: 'These options configure the OAuth resource server.',
    within: 'auth',
    interfaces: [['src/auth/auth.options.ts', 'McpAuthOptions']],
  },
  {
    title: 'Properties of `auth.jwt`',
    about: 'These options decide how access tokens that are JWTs are verified.',
    within: 'auth.jwt',
    interfaces: [['src/auth/auth.options.ts', 'McpJwtOptions']],
  },
  {
    title: 'Properties of `serverCard`',
    about: 'These options add to the card what `serverInfo` does not have.',
    within: 'serverCard',
    interfaces: [['src/card/server-card.options.ts', 'McpServerCardOptions']],
  },
  {
    title: 'Properties of `eventLog`',
    about: 'These options bound the event log in memory. Other event stores have their own options.',
    within: 'eventLog',
    interfaces: [['src/core/log/stream.options.ts', 'McpEventLogOptions']],
  },
];

/** What `@see` leads to, by host. */
const SOURCES = {
  'modelcontextprotocol.io': 'specification',
  'docs.nestjs.com': 'Nest',
  'www.rfc-editor.org': 'RFC',
};

const HEAD = `# Options

You can look up here every option of \`McpStreamableModule.forRoot(options)\` and \`forRootAsync({ useFactory, … })\`, with its default. If a value
cannot work, the app does not start, and the error names the option. If an option has an unknown name, the app does not start either, and the
error suggests the right name.

<!-- Generated from the comments in the source: npm run x -- docs:options -->
`;

/** The page, as Prettier leaves it. */
export function optionsPage() {
  const parts = SECTIONS.map(({ title, about, interfaces, within }) => {
    const options = interfaces.flatMap(([file, name]) => optionsOf(file, name));
    return [`## ${title}`, about, ...options.map((option) => entryOf(option, within))].join('\n\n');
  });
  return `${HEAD}\n${parts.join('\n\n')}\n`;
}

/** The names of all options that the sections name, with the file and interface they come from. */
export function optionsOf(file, name) {
  const text = readFileSync(new URL(file, new URL('../', import.meta.url)), 'utf8');
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const found = source.statements.find((each) => ts.isInterfaceDeclaration(each) && each.name.text === name);
  if (found === undefined) throw new Error(`${file} has no interface ${name}: change the sections of this script.`);
  return found.members.filter(ts.isPropertySignature).map((member) => {
    const [comment] = ts.getJSDocCommentsAndTags(member).filter(ts.isJSDoc);
    const tags = (comment?.tags ?? []).map((tag) => [tag.tagName.text, textOf(tag)]);
    return {
      name: member.name.getText(),
      type: member.type.getText().replaceAll(/\s+/g, ' '),
      required: member.questionToken === undefined,
      about: linked(ts.getTextOfJSDocComment(comment?.comment) ?? ''),
      byDefault: tags.find(([tag]) => tag === 'default')?.[1],
      see: tags.filter(([tag]) => tag === 'see').map(([, url]) => url),
    };
  });
}

function entryOf({ name, type, required, about, byDefault, see }, within) {
  const facts = [`\`${type}\``, required ? 'required' : `default: ${shownDefault(byDefault)}`];
  const clauses = see.map((url) => `[${SOURCES[new URL(url).hostname]}](${url})`);
  return [
    `### \`${within === undefined ? name : `${within}.${name}`}\``,
    [...facts, ...clauses].join(' · '),
    about,
  ].join('\n\n');
}

/** Code as code, words as words: what can be parsed is code. */
function shownDefault(value) {
  if (value === undefined || value === 'none') return 'none';
  const [, code, note = ''] = /^(.+?)( \(.+\))?$/.exec(value);
  const isCode =
    !/[;`]/.test(code) && ts.transpileModule(`(${code})`, { reportDiagnostics: true }).diagnostics.length === 0;
  if (!isCode) return value;
  return `\`${/^\d{4,}$/.test(code) ? Number(code).toLocaleString('en').replaceAll(',', '_') : code}\`${note}`;
}

function textOf(tag) {
  const text = tag.getText().replace(/^@\w+\s*/, '');
  return text.replaceAll(/\n\s*\* ?/g, ' ').trim();
}

/** Without the links of TSDoc, which lead to names. */
const linked = (text) =>
  text
    .replaceAll(/\{@link (\w+)\}/g, '`$1`')
    .replaceAll('\r', '')
    .trim();

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(`${root}/docs/options.md`, optionsPage());
