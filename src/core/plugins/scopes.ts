/** Scopes that a call requires, beside those of its method and class. */
export interface RequiredScopes {
  /** All of them are required. */
  readonly all: readonly string[];
  /** Whether lists show the handler to callers that lack them. */
  readonly listed: boolean;
}

/** Makes the decorator of a method whose calls require scopes, as `@RequireScopes()` does. @throws TypeError for what is no scope */
export type ScopesDecorator = (scopes: RequiredScopes) => MethodDecorator;

/** The injection token of a {@link ScopesDecorator}: `auth` knows what scopes are. */
export const SCOPES_DECORATOR = Symbol('nestjs-mcp-streamable:SCOPES_DECORATOR');
