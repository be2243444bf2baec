/** An endpoint of the app, for whoever looks for handlers. One in the module of each endpoint. */
export class EndpointMark {
  constructor(
    /** The option `name`. */
    readonly name: string | undefined,
  ) {}
}

/** What `McpStreamableModule.forFeature()` says. One in each module that it makes. */
export class FeatureMark {
  constructor(
    readonly providers: readonly object[],
    /** The option `name` of the endpoint; `undefined`: as without a mark. */
    readonly endpoint: string | undefined,
  ) {}
}
