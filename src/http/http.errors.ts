/** An option of the HTTP edge that cannot work; thrown while the app starts. @publicApi */
export class McpHttpOptionError extends Error {
  readonly code = 'HTTP_OPTION';

  constructor(
    /** The name of the option. */
    readonly option: string,
    message: string,
  ) {
    super(message);
  }

  override get name(): string {
    return 'McpHttpOptionError';
  }
}
