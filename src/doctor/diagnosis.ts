import type { McpEndpointHost } from '../core/plugins/mcp-plugin.js';
import type { Tool } from '@modelcontextprotocol/server';
import { isObject } from '../core/protocol/json-rpc.js';
import { BoundedJsonSchemas } from '../core/protocol/json-schema.js';
import { cyclicRef, hasType, schemasIn } from '../core/protocol/schema-walk.js';
import { similarTexts } from './similar-texts.js';
import { tokensOfJson } from '../core/protocol/values.js';
import { MAX_RESULT_TOKENS } from './tokens.js';

/**
 * # What clients and models have difficulties with
 *
 * Each rule is what a vendor of clients documents, or what its client does: `docs/troubleshooting.md` names the source of each. The
 * rules are pure functions over tools as lists show them.
 */

/** The rules, the worst first. */
const RULES = {
  'schema-unreadable': 'error',
  'schema-root-union': 'error',
  'schema-cycle': 'error',
  'schema-property-name': 'error',
  'schema-array-items': 'error',
  'schema-dialect': 'error',
  'name-too-long': 'error',
  'name-characters': 'error',
  'oauth-metadata': 'error',
  'large-result': 'warning',
  'no-description': 'warning',
  'hints-contradict': 'warning',
  'similar-text': 'warning',
  'no-hints': 'warning',
  'no-title': 'warning',
  'many-tools': 'warning',
  'heavy-list': 'warning',
  'heavy-tool': 'warning',
  'outdated-library': 'warning',
  'schema-ref': 'warning',
  'schema-format': 'warning',
} as const;

/** Names a rule of the doctor; `docs/troubleshooting.md` explains each. @publicApi */
export type McpDoctorRule = keyof typeof RULES;

/** Something that a client or a model has difficulties with. @publicApi */
export interface McpFinding {
  readonly rule: McpDoctorRule;
  /** `error`: some client refuses the tool, or all requests with it. `warning`: users or models are served worse. */
  readonly severity: 'error' | 'warning';
  /** The name of the tool; `undefined`: it concerns the endpoint. */
  readonly tool: string | undefined;
  /** Says what was found, such as `has no title`: the subject is the tool or the endpoint. */
  readonly problem: string;
  /** Says what to do, in whole sentences. */
  readonly advice: string;
}

/** What the doctor found at one endpoint. @publicApi */
export interface McpDiagnosis {
  /** The worst first. */
  readonly findings: readonly McpFinding[];
  /** The estimated weight of `tools/list` in tokens. */
  readonly tokens: number;
  /** The estimated weight of each tool in it, in tokens; the heaviest first. */
  readonly weights: readonly { readonly tool: string; readonly tokens: number }[];
}

/** A tool that is examined. */
export interface ExaminedTool {
  /** The tool as lists show it. */
  readonly wire: Readonly<Tool>;
  /** Whether it is a GET or HEAD route too. */
  readonly reads?: boolean | undefined;
  /** Names the library of its schema, if a newer version checks large arguments within limits. */
  readonly outdated?: string | undefined;
}

const MAX_NAME = 64;
const MAX_TOOL_TOKENS = 2_000;
const MAX_LIST_TOKENS = 10_000;
const MAX_TOOLS = 128;
/** String formats that most clients pass on to their models. */
const FORMATS = ['date-time', 'date', 'time', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uuid'];
const PROPERTY_NAME = /^[\w.-]{1,64}$/;

/** So many names are part of a text. */
const NAMED = 5;

/** Examines the tools of all callers of an endpoint. @param largest as of {@link diagnoseTools} */
export function diagnoseEndpoint({ handlers }: McpEndpointHost, largest?: ReadonlyMap<string, number>): McpDiagnosis {
  // They are the entries that lists show, of which the host names less.
  return diagnoseTools([...handlers.all('tool')] as unknown as readonly ExaminedTool[], largest);
}

/**
 * Examines the tools of an endpoint. 1,000 tools take about 0.1 s, and 2 s more if all have an output schema.
 *
 * @param largest the largest results that were observed, in tokens by tool
 */
export function diagnoseTools(
  tools: readonly ExaminedTool[],
  largest: ReadonlyMap<string, number> = new Map(),
): McpDiagnosis {
  const weights = tools
    .map(({ wire }) => ({ tool: wire.name, tokens: tokensOfJson(wire) }))
    .toSorted((a, b) => b.tokens - a.tokens);
  const schemas = new BoundedJsonSchemas();
  const tokens = weights.reduce((sum, weight) => sum + weight.tokens, 0);
  const findings = [
    ...tools.flatMap((tool) => [
      ...nameFindings(tool),
      ...textFindings(tool),
      ...schemaFindings(tool),
      ...readingFindings(tool, schemas),
    ]),
    ...similarFindings(tools),
    ...libraryFindings(tools),
    ...weightFindings(weights, tokens),
    ...Array.from(largest, ([tool, size]) => largeResult(tool, size)),
  ];
  return { findings: worstFirst(findings), tokens, weights };
}

const ORDER = Object.keys(RULES);

/** Sorts findings: the worst first, those of a rule together. */
export function worstFirst(findings: readonly McpFinding[]): McpFinding[] {
  return findings.toSorted((a, b) => ORDER.indexOf(a.rule) - ORDER.indexOf(b.rule));
}

function nameFindings({ wire: { name } }: ExaminedTool): McpFinding[] {
  const found: McpFinding[] = [];
  if (name.length > MAX_NAME) {
    const advice = `Give it a name of at most ${MAX_NAME} characters; clients put the name of the server in front, so shorter is better.`;
    found.push(finding('name-too-long', name, `has a name of ${name.length} characters`, advice));
  }
  if (!/^[A-Za-z_][\w-]*$/.test(name)) {
    const advice =
      'Use only the characters A-Z a-z 0-9 _ -, and begin with a letter or _: several model APIs refuse other names.';
    found.push(finding('name-characters', name, 'has a name with characters that some clients refuse', advice));
  }
  return found;
}

function textFindings({ wire, reads }: ExaminedTool): McpFinding[] {
  const { name, title, description, annotations = {} } = wire;
  const { readOnlyHint, destructiveHint } = annotations;
  const found: McpFinding[] = [];
  if (!description?.trim()) {
    const advice = 'Say in "description" what it does and when to use it: models choose by it.';
    found.push(finding('no-description', name, 'has no description', advice));
  }
  if (!(title ?? annotations.title)?.trim()) {
    found.push(finding('no-title', name, 'has no title', 'Give "title", which clients show to users.'));
  }
  if (readOnlyHint === undefined && destructiveHint === undefined) {
    const advice =
      'Give "annotations" with readOnlyHint: true, or with destructiveHint: clients ask the user before each call of a tool without them.';
    found.push(finding('no-hints', name, 'does not say whether it changes something', advice));
  }
  if (destructiveHint === true && (reads || readOnlyHint === true)) {
    const problem = reads ? 'is a GET route, and has destructiveHint: true' : 'is read-only and destructive at once';
    const advice = reads
      ? 'Remove the hint; if it destroys something, make it a DELETE or POST route.'
      : 'Remove one of the hints readOnlyHint and destructiveHint.';
    found.push(finding('hints-contradict', name, problem, advice));
  }
  return found;
}

function schemaFindings({ wire: { name, inputSchema } }: ExaminedTool): McpFinding[] {
  const found: McpFinding[] = [];
  const union = ['anyOf', 'oneOf', 'allOf'].find((keyword) => Object.hasOwn(inputSchema, keyword));
  if (union) {
    const advice =
      'Make one object of all properties, and check in the handler which belong together; or put the union into a property.';
    found.push(finding('schema-root-union', name, `has a schema with "${union}" at the top`, advice));
  }
  const cycle = cyclicRef(inputSchema);
  if (cycle !== undefined) {
    const advice = 'Limit the depth: write out the levels that are needed, or take the tree as text.';
    found.push(finding('schema-cycle', name, `has a schema that refers to itself (${cycle})`, advice));
  }
  const properties: string[] = [];
  const arrays: string[] = [];
  const references: string[] = [];
  const formats: string[] = [];
  for (const { schema, path } of schemasIn(inputSchema)) {
    const { format, items, $ref, properties: own } = schema;
    const names = isObject(own) ? Object.keys(own) : [];
    for (const property of names) if (!PROPERTY_NAME.test(property)) properties.push(property);
    if (hasType(schema, 'array') && !items) arrays.push(JSON.stringify(path));
    if (typeof $ref === 'string') references.push(JSON.stringify(path));
    if (hasType(schema, 'string') && typeof format === 'string' && !FORMATS.includes(format))
      formats.push(`${format} of "${path}"`);
  }
  if (properties.length > 0) {
    const names = named(properties.map((property) => JSON.stringify(property)));
    const advice = 'Use 1 to 64 characters of A-Z a-z 0-9 _ . - for the names of arguments.';
    found.push(finding('schema-property-name', name, `has arguments that some clients refuse: ${names}`, advice));
  }
  if (arrays.length > 0) {
    const advice = 'Give each "items", such as { "type": "string" }; {} lets any item pass.';
    found.push(finding('schema-array-items', name, `has arrays without "items": ${named(arrays)}`, advice));
  }
  if (references.length > 0 && cycle === undefined) {
    const advice = 'Write the schema out where it is used: in Zod, leave out the "id" of .meta().';
    found.push(finding('schema-ref', name, `has references ("$ref"): ${named(references)}`, advice));
  }
  if (formats.length > 0) {
    const advice = 'Describe the format in the "description" of the argument, or use "pattern".';
    const problem = `has formats that some clients drop or refuse: ${named(formats)}`;
    found.push(finding('schema-format', name, problem, advice));
  }
  return found;
}

/** Finds what clients cannot read in either schema: they compile that of results when they list the tool. */
function readingFindings(
  { wire: { name, inputSchema, outputSchema } }: ExaminedTool,
  schemas: BoundedJsonSchemas,
): McpFinding[] {
  const found: McpFinding[] = [];
  if ([inputSchema, outputSchema].some((schema) => schema?.['$schema'] !== undefined)) {
    const advice =
      'Leave it out: draft 2020-12 is the default, and some clients refuse a schema that names it. Servers of the SDK write it for Zod; give them the schema by fromJsonSchema().';
    found.push(finding('schema-dialect', name, 'names the dialect of its schema ("$schema")', advice));
  }
  if (!outputSchema) return found;
  try {
    schemas.getValidator(outputSchema);
  } catch (error) {
    const problem = `has an "outputSchema" that cannot be compiled (${(error as Error).message})`;
    const advice = 'Mend it: many clients lose all tools of the endpoint by one such schema.';
    found.push(finding('schema-unreadable', name, problem, advice));
  }
  const tuples = [...schemasIn(outputSchema)]
    .filter(({ schema: { items, prefixItems } }) => prefixItems && items !== undefined && !isEmpty(items))
    .map(({ path }) => JSON.stringify(path));
  if (tuples.length > 0) {
    const problem = `has "items" beside "prefixItems" in its "outputSchema": ${named(tuples)}`;
    const advice =
      'Leave "items" out, and limit the length with "maxItems": clients on SDK 1.x take "items" as the schema of all items, and throw after the tool has run.';
    found.push(finding('schema-unreadable', name, problem, advice));
  }
  return found;
}

function isEmpty(schema: unknown): boolean {
  return isObject(schema) && Object.keys(schema).length === 0;
}

function similarFindings(tools: readonly ExaminedTool[]): McpFinding[] {
  return similarTexts(tools.map(({ wire }) => wire)).map(([first, ...others]) => {
    const advice = 'Say in each description when to use this tool and not the other, or merge the tools.';
    return finding('similar-text', first, `has nearly the same description as ${named(others)}`, advice);
  });
}

function libraryFindings(tools: readonly ExaminedTool[]): McpFinding[] {
  const old = tools.filter(({ outdated }) => outdated !== undefined);
  if (old.length === 0) return [];
  const problem = `has schemas of ${old[0]!.outdated} (${named(old.map(({ wire }) => wire.name))}), which finds each fault of large arguments`;
  const advice =
    'Install zod 4.6 or later, which stops at the first one; below it, a tool takes 5,000 values ("maxValues").';
  return [finding('outdated-library', undefined, problem, advice)];
}

function weightFindings(weights: McpDiagnosis['weights'], tokens: number): McpFinding[] {
  const found = weights
    .filter((weight) => weight.tokens > MAX_TOOL_TOKENS)
    .map((weight) => {
      const advice = 'Shorten its texts and schemas, or divide it: each conversation with the endpoint carries them.';
      return finding('heavy-tool', weight.tool, `takes about ${weight.tokens} tokens of "tools/list"`, advice);
    });
  const fewer = 'Show each caller fewer tools, by guards, or divide the endpoint.';
  if (tokens > MAX_LIST_TOKENS) {
    const heaviest = weights.slice(0, 3).map((weight) => `${weight.tool} (${weight.tokens})`);
    const problem = `has a "tools/list" of about ${tokens} tokens, the most of them for ${heaviest.join(', ')}`;
    found.push(
      finding('heavy-list', undefined, problem, `Shorten the texts and schemas of the heaviest tools. ${fewer}`),
    );
  }
  if (weights.length > MAX_TOOLS) {
    found.push(finding('many-tools', undefined, `has ${weights.length} tools, more than clients pass on`, fewer));
  }
  return found;
}

/** Returns the finding for a result that clients cut or refuse. */
export function largeResult(tool: string, tokens: number): McpFinding {
  const problem = `returned about ${tokens} tokens; clients cut or refuse results of more than ${MAX_RESULT_TOKENS}`;
  const advice = 'Add arguments by which models ask for less (a page, a filter), and set "maxResultBytes".';
  return finding('large-result', tool, problem, advice);
}

/** Makes a finding. @param problem what was found; the subject is the tool, or the endpoint */
export function finding(rule: McpDoctorRule, tool: string | undefined, problem: string, advice: string): McpFinding {
  return { rule, severity: RULES[rule], tool, problem, advice };
}

function named(names: readonly string[]): string {
  const rest = names.length - NAMED;
  return `${names.slice(0, NAMED).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}
