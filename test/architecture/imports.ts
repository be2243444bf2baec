import { parseSync } from 'vite';

/** One module that a file names: by `import`, `export … from`, `import()`, `require()` or an import type. */
export interface ModuleReference {
  readonly specifier: string;
  /** 1-based. */
  readonly line: number;
  /** The compiler erases it: nothing is loaded at run time. */
  readonly typeOnly: boolean;
  /** What it takes of the module, under the names that the module gives; `*`: the module itself. */
  readonly names: readonly string[];
}

/** What the tests of sources want to know of a file. */
interface ParsedFile {
  readonly references: readonly ModuleReference[];
  /** Lines, 1-based, of `export * from` and `export * as x from`. */
  readonly starExports: readonly number[];
  /** The names that its classes extend or implement, and those that its providers provide. */
  readonly roles: readonly string[];
  /** Strings, parts of templates, and patterns, as the program has them. */
  readonly texts: readonly { readonly text: string; /** 1-based. */ readonly line: number }[];
}

/** A node of the syntax tree, as ESTree with types has it. */
interface Node {
  readonly type: string;
  readonly start: number;
  readonly [member: string]: unknown;
}

const isNode = (value: unknown): value is Node => typeof (value as Node | null)?.type === 'string';

/** Files that were parsed, by their texts: each rule asks for the same ones. */
const PARSED = new Map<string, ParsedFile>();

/** Reads one source text with the parser of Vite, which takes a third of the time that TypeScript's takes. */
export function parseFile(path: string, text: string): ParsedFile {
  const parsed = PARSED.get(text) ?? parse(path, text);
  PARSED.set(text, parsed);
  return parsed;
}

function parse(path: string, text: string): ParsedFile {
  const { program, errors } = parseSync(path, text, { sourceType: 'module' });
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]!.message}`);
  const references: ModuleReference[] = [];
  const starExports: number[] = [];
  const roles: string[] = [];
  const texts: { text: string; line: number }[] = [];
  const lineOf = ({ start }: Node): number => text.slice(0, start).split('\n').length;
  // The lines are counted when they are asked for: those of what breaks a rule are.
  const located = <T extends object>(node: Node, found: T): T & { line: number } =>
    Object.defineProperty(found as T & { line: number }, 'line', { get: () => lineOf(node) });
  const visit = (node: Node): void => {
    const named = referenceOf(node);
    const specifier = named?.specifier.value;
    if (typeof specifier === 'string') {
      references.push(located(node, { specifier, typeOnly: named!.typeOnly, names: namesOf(node) }));
    }
    roles.push(...rolesOf(node));
    if (node.type === 'ExportAllDeclaration') starExports.push(lineOf(node));
    const literal = textOf(node);
    if (literal !== undefined) texts.push(located(node, { text: literal }));
    for (const member of Object.values(node)) {
      for (const child of Array.isArray(member) ? member : [member]) if (isNode(child)) visit(child);
    }
  };
  visit(program as unknown as Node);
  return { references, starExports, roles, texts };
}

function textOf({ type, value, regex }: Node): string | undefined {
  if (type === 'TemplateElement') return (value as { cooked: string }).cooked;
  if (type !== 'Literal') return undefined;
  return regex ? (regex as { pattern: string }).pattern : typeof value === 'string' ? value : undefined;
}

function referenceOf(node: Node): { specifier: Node; typeOnly: boolean } | undefined {
  const source = node['source'] as Node | null;
  switch (node.type) {
    case 'ImportDeclaration':
      return { specifier: source!, typeOnly: node['importKind'] === 'type' || erases(node) };
    case 'ExportNamedDeclaration':
      return source ? { specifier: source, typeOnly: node['exportKind'] === 'type' || erases(node) } : undefined;
    case 'ExportAllDeclaration':
      return { specifier: source!, typeOnly: node['exportKind'] === 'type' };
    case 'ImportExpression':
      return { specifier: source!, typeOnly: false };
    case 'TSImportType':
      return { specifier: source!, typeOnly: true };
    case 'TSExternalModuleReference':
      return { specifier: node['expression'] as Node, typeOnly: false };
    case 'CallExpression': {
      const [argument] = node['arguments'] as Node[];
      return argument && (node['callee'] as Node)['name'] === 'require'
        ? { specifier: argument, typeOnly: false }
        : undefined;
    }
    default:
      return undefined;
  }
}

const named = (node: unknown): string => String((node as Node | null)?.['name'] ?? '*');

function namesOf(node: Node): string[] {
  const specifiers = (node['specifiers'] ?? []) as Node[];
  if (node.type === 'TSImportType') {
    let name = node['qualifier'] as Node | null;
    while (name?.type === 'TSQualifiedName') name = name['left'] as Node;
    return [named(name)];
  }
  if (specifiers.length === 0) return ['*'];
  const isExport = node.type === 'ExportNamedDeclaration';
  return specifiers.map((each) => named(isExport ? each['local'] : each['imported']));
}

function rolesOf(node: Node): string[] {
  if (node.type === 'ClassDeclaration' || node.type === 'ClassExpression') {
    const implemented = (node['implements'] ?? []) as Node[];
    return [node['superClass'], ...implemented.map((each) => each['expression'])].filter(isNode).map(named);
  }
  const isProvided = node.type === 'Property' && named(node['key']) === 'provide';
  return isProvided && (node['value'] as Node).type === 'Identifier' ? [named(node['value'])] : [];
}

/** `import { type A, type B } …`, whose rest is a bare import that loads nothing we wanted; the same of exports. */
function erases(node: Node): boolean {
  const specifiers = node['specifiers'] as Node[];
  return (
    specifiers.length > 0 && specifiers.every((each) => each['importKind'] === 'type' || each['exportKind'] === 'type')
  );
}
