/** What users read of this room. */
export const callMessages = {
  notAHandler: () =>
    'McpExecutionContext.create() was given the context of something else than an MCP handler. Ask McpExecutionContext.isMcp(context) first where a guard, interceptor or decorator serves both.',
};
