import ts from 'typescript';

/** One module that a file names: by `import`, `export … from`, `import()`, `require()` or an import type. */
export interface ModuleReference {
  readonly specifier: string;
  /** 1-based. */
  readonly line: number;
  /** The compiler erases it: nothing is loaded at run time. */
  readonly typeOnly: boolean;
}

/** What this test wants to know of a source file. */
interface ParsedFile {
  readonly references: readonly ModuleReference[];
  /** Lines, 1-based, of `export * from` and `export * as x from`. */
  readonly starExports: readonly number[];
}

/** Reads the imports of one source text with TypeScript's own parser. */
export function parseImports(path: string, text: string): ParsedFile {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const references: ModuleReference[] = [];
  const starExports: number[] = [];
  const lineOf = (node: ts.Node): number => source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1;

  const visit = (node: ts.Node): void => {
    const found = referenceOf(node);
    if (found && ts.isStringLiteralLike(found.specifier)) {
      references.push({ specifier: found.specifier.text, line: lineOf(node), typeOnly: found.typeOnly });
    }
    if (ts.isExportDeclaration(node) && node.moduleSpecifier && !isNamedExport(node)) starExports.push(lineOf(node));
    ts.forEachChild(node, visit);
  };
  visit(source);
  return { references, starExports };
}

/** A string, a part of a template, or a pattern, as the program has it. */
interface LiteralText {
  readonly text: string;
  /** 1-based. */
  readonly line: number;
}

/** Reads the texts in one source text. */
export function parseTexts(path: string, text: string): LiteralText[] {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const texts: LiteralText[] = [];
  const visit = (node: ts.Node): void => {
    const found = textOf(node);
    if (found !== undefined) {
      texts.push({ text: found, line: source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1 });
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return texts;
}

function textOf(node: ts.Node): string | undefined {
  if (ts.isRegularExpressionLiteral(node)) return node.text.slice(1);
  const isText = ts.isStringLiteralLike(node) || ts.isTemplateHead(node) || ts.isTemplateMiddleOrTemplateTail(node);
  return isText ? node.text : undefined;
}

function isNamedExport(node: ts.ExportDeclaration): boolean {
  return node.exportClause !== undefined && ts.isNamedExports(node.exportClause);
}

function referenceOf(node: ts.Node): { specifier: ts.Node; typeOnly: boolean } | undefined {
  if (ts.isImportDeclaration(node)) return { specifier: node.moduleSpecifier, typeOnly: erases(node.importClause) };
  if (ts.isExportDeclaration(node)) {
    return node.moduleSpecifier && { specifier: node.moduleSpecifier, typeOnly: exportErases(node) };
  }
  if (ts.isImportEqualsDeclaration(node) && ts.isExternalModuleReference(node.moduleReference)) {
    return { specifier: node.moduleReference.expression, typeOnly: node.isTypeOnly };
  }
  if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
    return { specifier: node.argument.literal, typeOnly: true };
  }
  if (ts.isCallExpression(node) && node.arguments[0] && loads(node.expression)) {
    return { specifier: node.arguments[0], typeOnly: false };
  }
  return undefined;
}

function loads(callee: ts.Expression): boolean {
  return callee.kind === ts.SyntaxKind.ImportKeyword || (ts.isIdentifier(callee) && callee.text === 'require');
}

/** `import type …`, and `import { type A, type B } …`, whose rest is a bare import that loads nothing we wanted. */
function erases(clause: ts.ImportClause | undefined): boolean {
  if (!clause) return false;
  if (clause.phaseModifier === ts.SyntaxKind.TypeKeyword) return true;
  const named = clause.namedBindings;
  if (clause.name || !named || !ts.isNamedImports(named)) return false;
  return named.elements.length > 0 && named.elements.every((element) => element.isTypeOnly);
}

function exportErases(node: ts.ExportDeclaration): boolean {
  if (node.isTypeOnly) return true;
  const clause = node.exportClause;
  if (!clause || !ts.isNamedExports(clause)) return false;
  return clause.elements.length > 0 && clause.elements.every((element) => element.isTypeOnly);
}
