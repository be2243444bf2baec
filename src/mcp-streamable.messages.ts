/** What users read of the module itself. */
export const moduleMessages = {
  guards: () =>
    'The option "guards" must be an array of guards: classes, or objects with the method canActivate. An undefined one may come from a circular import.',
  imports: () => 'The option "imports" must be an array of modules.',
  sessionGuard: () => 'The option "sessionGuard" must be McpSessionGuard or a class that extends it.',
  options: (got: unknown) => `The options must be an object with "serverInfo" at least; got ${String(got)}.`,
  late: (extra: string) =>
    `The option "${extra}" came from the factory of forRootAsync(), where it has no effect: Nest needs it before. Give it to forRootAsync() itself, beside the factory.`,
  sameName: (name: string | undefined, path: string, other: string) =>
    `Two MCP endpoints of this app, at "${path}" and "${other}", have ${name === undefined ? 'no name' : `the name "${name}"`}. Give each a "name" of its own.`,
};
