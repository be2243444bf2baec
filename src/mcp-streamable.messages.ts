/** What users read of the module itself. */
export const moduleMessages = {
  guards: () =>
    'The option "guards" must be an array of guards: classes, or objects with the method canActivate. An undefined one may come from a circular import.',
  version: (got: unknown) =>
    `The option "version" must be a text, VERSION_NEUTRAL, or an array of these; got ${JSON.stringify(got)}.`,
  decorators: () =>
    'The option "decorators" must be an array of class decorators, such as [Public(), SkipThrottle()]: what a decorator returns, not the decorator itself.',
  samePath: (path: string, names: readonly (string | undefined)[]) =>
    `Two MCP endpoints of this app (${names.map((name) => (name === undefined ? 'without a name' : `"${name}"`)).join(' and ')}) are served at "${path}", so one would hide the other. Give each a "path" of its own, or a "version" of the app.`,
  imports: () => 'The option "imports" must be an array of modules.',
  sessionGuard: () => 'The option "sessionGuard" must be McpSessionGuard or a class that extends it.',
  noOptions: (method: string, got: unknown) =>
    `McpStreamableModule.${method}() takes an object of options; got ${String(got)}. ${method === 'forRoot' ? 'Give "serverInfo" at least: { serverInfo: { name: "orders", version: "1.0.0" } }.' : 'Give "useFactory", "useClass" or "useExisting".'}`,
  notBesideFactory: (name: string) =>
    `The option "${name}" stands beside the factory of forRootAsync(), where it has no effect. Return it from the factory.`,
  options: (got: unknown) => `The options must be an object with "serverInfo" at least; got ${String(got)}.`,
  late: (extra: string) =>
    `The option "${extra}" came from the factory of forRootAsync(), where it has no effect: Nest needs it before. Give it to forRootAsync() itself, beside the factory.`,
  sameName: (name: string | undefined, path: string, other: string) =>
    `Two MCP endpoints of this app, at "${path}" and "${other}", have ${name === undefined ? 'no name' : `the name "${name}"`}. Give each a "name" of its own.`,
};
