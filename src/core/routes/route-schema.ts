import { ParseArrayPipe, type Type } from '@nestjs/common';
import { isThenable } from '../common/promises.js';
import { McpArgumentsError, McpHandlerDefinitionError, namesText } from '../handlers/handlers.errors.js';
import type { ArgumentParam, JsonSchema, RequestPart, Validate } from '../handlers/schema/handler-schema.js';
import { dateExamples, isClass, isPipe, pipesSay, TYPES } from '../handlers/schema/pipe-schema.js';
import { keyOf, RouteChecks, type RoutePiece, type RoutePlace, type RoutePlaces } from './route-values.js';
import { type ClassOptions, frozenJson, type SchemaCompiler, standardOf } from '../handlers/schema/schema-compiler.js';

/** The schema of a tool that is a route, made of the parameters of the route. */
export interface RouteSchema extends RoutePlaces {
  readonly json: JsonSchema;
  readonly checks: RouteChecks;
  /** Names the library of a schema, as that of a compiled schema. */
  readonly outdated: string | undefined;
}

/** Describes a route, beside its parameters. */
export interface RouteUse {
  readonly origin: string;
  readonly compiler: SchemaCompiler;
  /** The names in the path of the route, and whether each path of it has them. */
  readonly pathNames: ReadonlyMap<string, boolean>;
  /** The names in the path that take several segments. */
  readonly wildNames: ReadonlySet<string>;
  /** The arguments may have so many values. @default as many as their schemas allow */
  readonly maxValues?: number | undefined;
  /** Renames arguments, such as `{ 'body.id': 'newId' }`. */
  readonly rename: Readonly<Record<string, string>>;
  /** Returns whether a `ValidationPipe` stands around the parameter: it checks the class, and nothing else does. */
  readonly piped: (param: ArgumentParam) => boolean;
  /** Returns what the pipes around a parameter do to its class. */
  readonly classes: (param: ArgumentParam) => ClassOptions;
  /** Returns what `@nestjs/swagger` documents of a parameter. */
  readonly documented: (place: RoutePlace) => JsonSchema;
}

/**
 * Makes the schema of a tool of the parameters of its route: a property for each name.
 *
 * | parameter | properties |
 * |---|---|
 * | `@Param('id')`, `@Query('page')`, `@Body('note')` | one, of the type that its schema, its pipes or TypeScript name |
 * | `@Body() dto: Dto`, `@Query() page: Dto` | those of the class, or of `{ schema }` |
 * | `@Param() params` | those of its class, else one text for each name in the path |
 * | none | one text for each name in the path that no parameter takes: guards read it |
 *
 * Names in the path are required, unless a path of the route does without; others where a schema, a class or a pipe refuses a call
 * without them.
 *
 * @throws McpHandlerDefinitionError for a parameter that says too little, and for a name that stands in two places
 */
export function routeSchema(params: readonly ArgumentParam[], use: RouteUse): RouteSchema {
  // Decorators of parameters run from the last to the first.
  const inOrder = params.toSorted((one, other) => one.index - other.index);
  const declared = inOrder.map((param) => pieceOf(param, use));
  const pieces = [...declared, ...pathPieces(declared, use)];
  const alone = pieces.length === 1 && pieces[0]!.json?.['properties'] === undefined ? pieces[0]!.json : undefined;
  const properties: Record<string, JsonSchema> = {};
  const required = new Set<string>();
  const places = new Map<string, RoutePlace>();
  const known = new Set<string>();
  for (const { part, field, json, ...piece } of pieces) {
    if (json && !alone && json['properties'] === undefined) {
      const reason = `the schema of its ${DECORATORS[part]} has alternatives instead of properties, which cannot be combined with other parameters. ${BY_HAND}`;
      throw new McpHandlerDefinitionError(use.origin, reason);
    }
    for (const [name, property] of Object.entries(piece.properties)) {
      const key = keyOf(part, name);
      known.add(key);
      const argument = use.rename[key] ?? name;
      const other = places.get(argument);
      if (other && (other.part !== part || other.field !== name))
        throw twice(argument, other, { part, field: name }, use);
      places.set(argument, { part, field: name, separator: piece.separator });
      // A named parameter says more than the class that has it too.
      if (!other || field !== undefined) properties[argument] = { ...properties[argument], ...property };
      if (piece.required.includes(name)) required.add(argument);
    }
  }
  const unknown = Object.keys(use.rename).find((key) => !known.has(key));
  if (unknown !== undefined) {
    const reason = `its "rename" names ${JSON.stringify(unknown)}, which the route does not have. ${namesText([...known])}`;
    throw new McpHandlerDefinitionError(use.origin, reason);
  }
  const wholes = pieces.filter(({ field, json }) => field === undefined && json);
  const rest = wholes.find(({ part }) => part === 'body') ?? wholes.find(({ part }) => part === 'query');
  const defs = defsOf(pieces, use.origin);
  const combined: JsonSchema = {
    type: 'object',
    properties,
    ...(required.size > 0 && { required: [...required] }),
    ...(rest?.json!['additionalProperties'] === false && { additionalProperties: false }),
    ...defs,
  };
  return {
    json: frozenJson(alone ?? combined),
    places,
    rest: rest?.part,
    checks: new RouteChecks(pieces, { places, rest: rest?.part }, use.maxValues),
    outdated: pieces.find((piece) => piece.outdated)?.outdated,
  };
}

const DECORATORS: Readonly<Record<RequestPart, string>> = { params: '@Param()', query: '@Query()', body: '@Body()' };
const BY_HAND = 'Give @Tool() an "inputSchema" with all arguments.';

/** Adds the parameters of the path: on the route it has all of them when guards decide, whatever the method takes. */
function pathPieces(declared: readonly RoutePiece[], { pathNames, documented }: RouteUse): RoutePiece[] {
  const ofPath = declared.filter(({ part }) => part === 'params');
  const free = [...pathNames].filter(([name]) => ofPath.every(({ field }) => field !== name));
  return free.map(([field, needed]) => {
    const isKnown = ofPath.some(({ properties }) => Object.hasOwn(properties, field));
    const json: JsonSchema = isKnown ? {} : { type: 'string', ...documented({ part: 'params', field }) };
    const check = (value: unknown): unknown => {
      assertInPath(value, needed);
      return value;
    };
    return { part: 'params', field, properties: { [field]: json }, required: needed ? [field] : [], check };
  });
}

function pieceOf(param: ArgumentParam, use: RouteUse): RoutePiece {
  return param.field === undefined ? wholePiece(param, use) : namedPiece(param, param.field, use);
}

function namedPiece(param: ArgumentParam, field: string, use: RouteUse): RoutePiece {
  const { part } = param;
  const { compiler, origin, documented, maxValues } = use;
  const standard = standardOf(param.schema) ?? standardOf(param.type);
  const place = { part, field };
  const documentation = documented(place);
  const pipes = pipesSay(param.pipes, part);
  const inPath = use.pathNames.get(field) ?? true;
  const optional = part === 'params' ? !inPath : !pipes.some(({ needed }) => needed);
  const defaulted = pipes.find(({ json }) => 'default' in json) !== undefined;
  if (standard) {
    const how = { option: `schema of ${at(param)}`, anyRoot: true, maxValues };
    const compiled = compiler.compile(standard, 'input', origin, how);
    if ('$defs' in compiled.json) {
      const reason = `the schema of its ${at(param)} has "$defs", which belong to the root of a schema. ${BY_HAND}`;
      throw new McpHandlerDefinitionError(origin, reason);
    }
    const absent = (part !== 'params' || !inPath) && acceptsNothing(compiled.validate);
    const properties = { [field]: { ...documentation, ...compiled.json } };
    const { outdated, validate: check } = compiled;
    return { part, field, properties, required: absent ? [] : [field], check, outdated };
  }
  // A pipe of the app makes an object of the text in the URL, such as an entity of its id.
  const isText = part === 'params' || (part === 'query' && param.pipes.length > 0);
  if (isClass(param.type) && pipes.length === 0 && !isText) {
    const { json, check } = ofClass(param, param.type as Type, use);
    const { $defs, ...own } = json;
    const checks = check && ((value: unknown) => (value === undefined ? undefined : check(value)));
    const required = optional ? [] : [field];
    return {
      part,
      field,
      properties: { [field]: { ...own, ...documentation } },
      required,
      $defs,
      ...(checks && { check: checks }),
    };
  }
  const isWild = part === 'params' && use.wildNames.has(field);
  const separator = isWild ? '/' : pipes.find((pipe) => pipe.separator !== undefined)?.separator;
  const json: JsonSchema = Object.assign(
    {},
    dateExamples(param.type, param.pipes),
    TYPES.get(param.type) ?? (part === 'params' || (isClass(param.type) && isText) ? { type: 'string' } : undefined),
    isWild && param.type === Array ? { items: { type: 'string' } } : undefined,
    documentation,
    ...pipes.map((pipe) => pipe.json),
  ) as JsonSchema;
  const check = checkOf(json, compiler, origin);
  const required = optional || defaulted ? [] : [field];
  const { $defs, ...listed } = withItems(json, pipes.find(({ items }) => items)?.items, use);
  return {
    part,
    field,
    properties: { [field]: listed },
    required,
    $defs,
    separator,
    check: (value) => {
      if (part === 'params') assertInPath(value, inPath);
      else if (value === undefined && required.length > 0) throw missing();
      // A body can have null, which optional pipes take for absent.
      if (value === null && part === 'body' && pipes.length > 0 && optional) return value;
      return check(value);
    },
  };
}

/** Returns the schema of a list with that of its items: `ParseArrayPipe` checks their class. */
function withItems(json: JsonSchema, type: Type | undefined, { compiler, origin }: RouteUse): JsonSchema {
  if (json['type'] !== 'array' || 'items' in json) return json;
  if (!type) return { ...json, items: {} };
  const { $defs, ...items } = compiler.compile(type, 'input', origin, { option: 'class of ParseArrayPipe' }).json;
  return { ...json, items, ...($defs !== undefined && { $defs }) };
}

/**
 * Checks that a path has all its parameters, and none of them is empty: its route relies on it.
 *
 * @throws McpArgumentsError
 */
function assertInPath(value: unknown, needed: boolean): void {
  if (value === undefined && needed) throw missing();
  if (value === null) throw new McpArgumentsError([{ path: '', message: 'must be a text' }]);
  const isEmpty = value === '' || (Array.isArray(value) && value.length === 0);
  if (isEmpty) throw new McpArgumentsError([{ path: '', message: 'must not be empty' }]);
}

function missing(): McpArgumentsError {
  return new McpArgumentsError([{ path: '', message: 'is missing' }]);
}

/** Returns the check of one value: Ajv checks objects, so it is the property of one. */
function checkOf(json: JsonSchema, compiler: SchemaCompiler, origin: string): (value: unknown) => unknown {
  const { validate } = compiler.compile({ type: 'object', properties: { value: json } }, 'input', origin);
  return (value) => {
    if (value === undefined) return undefined;
    try {
      void validate({ value });
    } catch (error) {
      const { problems = [] } = error as Partial<McpArgumentsError>;
      throw new McpArgumentsError(
        problems.map(({ path, message }) => ({ path: path.split('.').slice(1).join('.'), message })),
      );
    }
    return value;
  };
}

function wholePiece(param: ArgumentParam, use: RouteUse): RoutePiece {
  const { part, type } = param;
  const { compiler, origin, pathNames, classes, maxValues } = use;
  const standard = standardOf(param.schema) ?? standardOf(type);
  const wholeOf = (json: JsonSchema, check: Validate | undefined): RoutePiece => {
    const properties = (json['properties'] ?? {}) as Record<string, JsonSchema>;
    const declared = (json['required'] ?? []) as string[];
    const isRequired = (name: string): boolean => pathNames.get(name) ?? declared.includes(name);
    const required = part === 'params' ? Object.keys(properties).filter(isRequired) : declared;
    return { part, field: undefined, properties, required, json, ...(check && { check }) };
  };
  if (standard) {
    const how = { option: `schema of ${at(param)}`, classes: classes(param), maxValues };
    const compiled = compiler.compile(standard, 'input', origin, how);
    return { ...wholeOf(compiled.json, compiled.validate), outdated: compiled.outdated };
  }
  if (isClass(type)) {
    const { json, check } = ofClass(param, type as Type, use);
    return wholeOf(json, check);
  }
  if (part === 'params') {
    // The names in the path are pieces of their own.
    return { part, field: undefined, properties: {}, required: [] };
  }
  const [list] = param.pipes.filter((pipe) => isPipe(pipe, ParseArrayPipe));
  const what =
    type === Array || list
      ? 'is a list, while the arguments of a tool are an object'
      : 'has a type that is not known at run time: the type may not be a class, may be imported as a type, or the build (esbuild, tsx) emits no decorator metadata';
  const reason = `its ${at(param)} ${what}. Give it a class whose properties have decorators of class-validator, or a schema (Nest 12: ${DECORATORS[part].slice(0, -1)}{ schema })); or give @Tool() an "inputSchema" with all arguments. If the route must not be a tool, use @Tool(false).`;
  throw new McpHandlerDefinitionError(origin, reason);
}

function ofClass(param: ArgumentParam, type: Type, use: RouteUse): { json: JsonSchema; check?: Validate } {
  const { compiler, origin, classes, maxValues } = use;
  try {
    const { json, validate } = compiler.compile(type, 'input', origin, { classes: classes(param), maxValues });
    // A ValidationPipe at the parameter makes the instance, of what a URL says.
    return use.piped(param) ? { json } : { json, check: validate };
  } catch (error) {
    const why = ((error as Error).cause as Error | undefined)?.message ?? (error as Error).message;
    const reason = `its ${at(param)} has the class ${type.name}, which is no schema: ${why} Or give @Tool() an "inputSchema" with all arguments. If the route must not be a tool, use @Tool(false).`;
    throw new McpHandlerDefinitionError(origin, reason, { cause: error });
  }
}

function at({ part, field }: ArgumentParam): string {
  return field === undefined ? DECORATORS[part] : `${DECORATORS[part].slice(0, -1)}'${field}')`;
}

function twice(argument: string, one: RoutePlace, other: RoutePlace, { origin }: RouteUse): McpHandlerDefinitionError {
  const [first, second] = [one, other].map(({ part, field }) => keyOf(part, field)) as [string, string];
  const reason = `two of its parameters are the argument "${argument}": ${first} and ${second}. Give one another name: @Tool({ rename: { '${second}': 'other_${argument}' } }).`;
  return new McpHandlerDefinitionError(origin, reason);
}

/** Merges definitions. @throws McpHandlerDefinitionError when two schemas call different things by one name */
function defsOf(pieces: readonly RoutePiece[], origin: string): JsonSchema {
  const defs: Record<string, unknown> = {};
  for (const { json, $defs = json?.['$defs'] } of pieces) {
    for (const [name, definition] of Object.entries(($defs ?? {}) as Record<string, unknown>)) {
      if (Object.hasOwn(defs, name) && JSON.stringify(defs[name]) !== JSON.stringify(definition)) {
        const reason = `two schemas of its parameters define "${name}" in "$defs", each in its own way. ${BY_HAND}`;
        throw new McpHandlerDefinitionError(origin, reason);
      }
      defs[name] = definition;
    }
  }
  return Object.keys(defs).length > 0 ? { $defs: defs } : {};
}

/** Returns whether a schema lets a call without the value pass. */
function acceptsNothing(validate: Validate): boolean {
  try {
    const checked = validate(undefined);
    if (!isThenable(checked)) return true;
    checked.then(undefined, () => {});
    return false;
  } catch {
    return false;
  }
}
