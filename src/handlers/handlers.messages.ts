import { shown } from '../wire/wire.messages.js';

/** What users read of this room. */
export const handlerMessages = {
  definition: (origin: string, reason: string) => `The MCP handler ${origin} cannot be served: ${reason}`,
  duplicate: (kind: string, key: string, first: string, second: string) =>
    `Two MCP handlers of kind "${kind}" have the name "${key}": ${first} and ${second}. Rename one, or put them into endpoints of their own (option "name").`,

  // Schemas
  unsuitableSchema: (option: string, reason: string) => `its "${option}" cannot be used: ${reason}`,
  notASchema: (got: unknown) =>
    `a schema is a Standard Schema (such as z.object({ … })), a JSON Schema, or a class with decorators of class-validator; got ${shown(got)}.`,
  notAnObject: (type: unknown) =>
    type === undefined
      ? 'its root says no type. Add "type": "object".'
      : `its root must be an object, not ${shown(type)}. Wrap it: z.object({ value: … }).`,
  shape: () => 'it is an object of schemas. Make one schema of them: z.object({ … }).',
  noJsonSchema: (vendor: string) => {
    if (vendor === 'zod') return 'this version of Zod cannot convert it to JSON Schema. Install zod 4.2 or later.';
    if (vendor === 'valibot')
      return 'Valibot converts to JSON Schema in a package of its own. Wrap it: toStandardJsonSchema(schema) of "@valibot/to-json-schema".';
    return `the schema library "${vendor}" does not convert to JSON Schema ("~standard.jsonSchema"). Install a version that does, or give the JSON Schema itself.`;
  },
  classPackagesMissing: () =>
    'a class as a schema needs two packages that are not installed. Run: npm install class-validator class-transformer.',
  classWithoutRules: (name: string) =>
    `the class ${name} has no decorators of class-validator. Decorate its properties, or give another schema.`,
  recursiveClass: (name: string) =>
    `the class ${name} contains itself, which cannot be written as JSON Schema from decorators. Give the JSON Schema itself.`,
  nestedWithoutType: (name: string, property: string) =>
    `${name}.${property} has @ValidateNested(), but its class is not known. Add @Type(() => …) of class-transformer.`,
  invalidArguments: (problems: readonly Problem[]) => `The arguments are not valid: ${named(problems)}.`,
  invalidResult: (problems: readonly Problem[]) => `The result is not valid: ${named(problems)}.`,

  // Decorators and definitions
  symbolMethod: (decorator: string) => `@${decorator}() needs a method with a name; this one is a symbol.`,
  noOptions: (decorator: string, got: unknown) => `@${decorator}() takes an object of options; got ${shown(got)}.`,
  unknownOption: (decorator: string, name: string, advice: string) =>
    `@${decorator}() has no option "${name}". ${advice}`,
  notAMethod: (decorator: string) => `@${decorator}() belongs on a method, not on a property or an accessor.`,
  staticMethod: (decorator: string) => `@${decorator}() belongs on a method of instances, not on a static one.`,
  noName: (option: string, got: unknown) => `its "${option}" must be a text that is not empty; got ${shown(got)}.`,
  notSpecified: (type: string, problems: readonly Problem[]) =>
    `it is not what the specification calls a ${type}: ${named(problems)}.`,
  notAUri: (uri: string) => `its "uri" is ${shown(uri)}, which is not an absolute URI such as "orders://terms".`,
  uriIsTemplate: (uri: string) => `its "uri" is ${shown(uri)}, which has variables. Use @ResourceTemplate().`,
  badTemplate: (template: string, reason: string) => `its "uriTemplate" ${shown(template)} cannot be used: ${reason}.`,
  noVariables: () => 'it has no variables; use @Resource()',
  unmatchable: (expression: string) => `the SDK cannot match the expression {${expression}}`,
  manyVariables: (names: readonly string[]) =>
    `the SDK cannot match several variables in one expression, {${names.join(',')}}; write an expression for each`,
  reservedVariable: () => 'the variable "uri" would hide the URI itself; call it otherwise',
  sameVariable: (name: string) => `the variable "${name}" occurs twice`,
  badCache: (got: unknown) =>
    `its "cache" must be { ttlMs, scope }, a whole number of at least 0 and "public" or "private"; got ${shown(got)}.`,
  twoArguments: () => 'it has both "inputSchema" and "arguments". Give one of them.',
  unlistable: () =>
    'its "inputSchema" has alternatives instead of properties, which cannot be listed as arguments of a prompt.',
  noInputSchema: (decorator: string, index: number, why: string) =>
    `its parameter ${index} (counted from 0) is arguments of the call, but it has no "inputSchema", and the type of no parameter can stand for one: ${why}. Give @${decorator}() an "inputSchema", or type the parameter of @McpArgs() with a class whose properties have decorators of class-validator. For any arguments on purpose: inputSchema: { type: 'object' }.`,
  noParamType: () =>
    'TypeScript left no class behind. Types that are no classes, type imports, and builds without decorator metadata (esbuild, tsx) leave none',
  missingArgument: () => 'is missing',
  noObject: () => 'it is not an object',
  unusualToolName: (origin: string, name: string) =>
    `The tool ${origin} is called ${shown(name)}. Some clients refuse names other than 1 to 128 characters of A-Z a-z 0-9 _ - .`,

  // Completion
  nothingToComplete: (ref: string, known: readonly string[]) => `there is no ${ref} in its endpoint. ${there(known)}`,
  noSuchArgument: (ref: string, argument: string, known: readonly string[]) =>
    `the ${ref} has no argument ${shown(argument)}. ${there(known)}`,
  completedTwice: (ref: string, argument: string, other: string) =>
    `the argument ${shown(argument)} of the ${ref} is completed by ${other} already.`,
  mixedCompletion: () => '@Complete() stands on it together with another decorator; each needs a method of its own.',
  notCompletions: (got: unknown) =>
    `A completion returns an array of texts, or { values, total, hasMore }; it returned ${shown(got)}.`,

  // Discovery
  unknownEndpoint: (name: string, known: readonly (string | undefined)[]) =>
    `it belongs to the endpoint "${name}", which the app does not have. ${there(known.map((name) => name ?? '(without a name)'))}`,
  noEndpoint: (known: readonly (string | undefined)[]) =>
    `it is not said to which endpoint it belongs, and none is without a name. Use @McpHandlers({ endpoint }) or McpStreamableModule.forFeature(). ${there(known.map(String))}`,
  noEndpointNames: (got: unknown) =>
    `@McpHandlers() takes the name of an endpoint, or several names; got ${shown(got)}.`,
  notProvided: () =>
    'McpStreamableModule.forFeature() names it, but no module provides it. Add it to the "providers" of its module.',
  madeLater: () =>
    'a factory makes it for each request, so it is not known at the start what its handlers are. Register it by its class, or by "useClass".',
  ownServers: () =>
    'its endpoint makes its servers itself (option "server") and would not serve it. Drop the option, or give the handler to another endpoint.',
  notClasses: () =>
    'it takes an array of provider classes, and one of them is none. An import in a circle leaves undefined behind.',

  notGuards: () => 'The option "listGuards" must be an array of guard classes.',

  unlistedGuards: (endpoint: string, guards: readonly string[]) =>
    `The endpoint "${endpoint}" lists its handlers without asking the global guards ${guards.join(', ')}: a caller may see what they will not let it call. Name those that decide by role in the option "listGuards", and none that counts calls or looks up a token; "listGuards: []" says that this is meant.`,

  // Failures
  errorDetails: (endpoint: string, told: boolean) =>
    told
      ? `Clients of the endpoint "${endpoint}" read the messages of errors that its handlers throw, as NODE_ENV is not "production". The option "errorDetails" decides.`
      : `Clients of the endpoint "${endpoint}" read a generic text of errors that its handlers throw, as NODE_ENV is "production". The option "errorDetails" decides; throw an HttpException for what they should read.`,

  // Registry
  registered: (kind: string, key: unknown) => `${kind} ${shown(key)} (registered at run time)`,
  notAHandler: (got: unknown) => `its "handler" must be a function; got ${shown(got)}.`,
  removed: () => 'it was removed, and cannot be updated any more.',
};

interface Problem {
  readonly path: string;
  readonly message: string;
}

/** How many problems a message names. */
const MAX_PROBLEMS = 8;
const MAX_PROBLEM_CHARACTERS = 200;

/** The first problems, shortened. */
function named(problems: readonly Problem[]): string {
  const first = problems.slice(0, MAX_PROBLEMS).map(({ path, message }) => shortened(withPath(path, message)));
  const more = problems.length - first.length;
  return first.join('; ') + (more > 0 ? `; and ${more} more` : '');
}

/** Some libraries say where in the message itself. */
function withPath(path: string, message: string): string {
  return path === '' || message.startsWith(path) ? message : `${path}: ${message}`;
}

function shortened(text: string): string {
  const whole = text.replace(/\.$/, '');
  return whole.length <= MAX_PROBLEM_CHARACTERS ? whole : `${whole.slice(0, MAX_PROBLEM_CHARACTERS)}…`;
}

function there(known: readonly string[]): string {
  return known.length === 0 ? 'There are none.' : `There are: ${known.map((name) => `"${name}"`).join(', ')}.`;
}
