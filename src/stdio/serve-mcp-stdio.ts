import type { Readable, Writable } from 'node:stream';
import { ConsoleLogger, type INestApplicationContext, type LogLevel } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import {
  McpOptionError,
  object,
  type OptionTable,
  passing,
  resolveOptions,
  text,
  timer,
} from '../core/common/options.js';
import { logger } from '../core/calls/operator-log.js';
import { McpEndpoint } from '../core/eras/mcp-endpoint.js';
import { EndpointShutdown } from '../core/http/endpoint-shutdown.js';
import { McpRequestReader } from '../core/http/mcp-incoming.js';
import { hostsIn, type McpEndpointHost } from '../core/plugins/mcp-plugin.js';
import { StdioConnection, type StdioStreams } from './stdio-connection.js';

/** Options of {@link serveMcpStdio}. @publicApi */
export interface McpStdioOptions {
  /** The option `name` of the endpoint, or its path, in an app that has several. @default the only one */
  endpoint?: string;
  /** The principal of all calls, as the function `principal` returns it over HTTP. @default anonymous */
  principal?: string;
  /**
   * Replaces the HTTP request: `switchToHttp().getRequest()` of a guard returns a copy of it for each message, with
   * `headers`, which are empty unless they are given. For guards that read a `user`, for example, or for `auth`, the
   * access token of `@RequireScopes()` and `ctx.auth`.
   *
   * @default an object with nothing but empty `headers`
   */
  request?: Readonly<Record<string, unknown>>;
  /**
   * Sets the milliseconds that running calls have to end after the input has ended. Then they are cancelled, and the
   * app closes. With a higher value clients wait longer for the process to exit.
   *
   * @default 1000
   */
  drainMs?: number;
  /** @default `process.stdin` */
  input?: Readable;
  /** @default `process.stdout`; all other output of the process to it goes to `process.stderr` */
  output?: Writable;
}

/** A client that is served over two streams. @publicApi */
export interface McpStdioServer {
  /** Resolves when the client has disconnected and the app is closed, or when the app closes. */
  readonly closed: Promise<void>;
}

const STDIO_TABLE = {
  endpoint: text(undefined),
  principal: passing(undefined, (given) => typeof given === 'string', 'a string'),
  request: object({}),
  drainMs: timer(1_000, { min: 0 }),
  input: object(undefined),
  output: object(undefined),
} satisfies OptionTable<McpStdioOptions>;

/**
 * Serves an endpoint of an app to the one client that has started this process, over stdin and stdout, in both eras:
 * the same handlers with their guards, pipes, interceptors and filters. No port is opened, and the guards of the
 * endpoint itself, such as the check of access tokens, do not run: every user that can start the process can call.
 *
 * ```ts
 * const app = await NestFactory.createApplicationContext(AppModule, { logger: new McpStderrLogger() });
 * await serveMcpStdio(app);
 * ```
 *
 * When the input ends, running calls may end, and the app is closed; also at SIGINT and SIGTERM, if the streams are
 * those of the process.
 *
 * @param app with or without HTTP; initialized, if it is not
 * @returns when the client is being served
 * @throws McpOptionError (rejects) for an app without an endpoint, or with several if none is named
 * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
 * @publicApi
 */
export async function serveMcpStdio(
  app: INestApplicationContext,
  options: McpStdioOptions = {},
): Promise<McpStdioServer> {
  const resolved = resolveOptions(STDIO_TABLE, options);
  const { drainMs, input = process.stdin, output, principal, request } = resolved;
  await app.init();
  const host = endpointOf(app, resolved.endpoint);
  const { limits } = host.get(McpRequestReader);
  const [streams, restore] = output ? [streamsOf(input, output), () => {}] : takeStdout(input);
  const caller = {
    principal,
    request: () => ({ ...request, headers: { ...(request['headers'] as object | undefined) } }),
  };
  const connection = new StdioConnection(host.get(McpEndpoint), caller, streams, {
    maxLineBytes: limits.maxBodyBytes,
    maxValues: limits.maxBodyValues,
    drainMs,
    clock: host.clock,
  });
  let closing = false;
  const stop = () => {
    closing = true;
    return connection.close();
  };
  app.get(EndpointShutdown, { strict: false }).add({ stop });
  if (!output) app.enableShutdownHooks();
  // Nest 11 would run the hooks of an app that is already closing a second time.
  const closed = connection.over.then(() => (closing ? undefined : app.close())).finally(restore);
  return { closed };
}

/** @throws McpOptionError */
function endpointOf(app: INestApplicationContext, wanted: string | undefined): McpEndpointHost {
  const all = hostsIn(app.get(ModulesContainer, { strict: false }));
  const chosen = wanted === undefined ? all : all.filter(({ name, path }) => [name, path].includes(wanted));
  if (chosen.length === 1) return chosen[0]!;
  const list = all.map(({ name, path }) => `"${name ?? path}"`).join(', ');
  const text =
    all.length === 0
      ? 'This app has no MCP endpoint to serve over stdio. Import McpStreamableModule.forRoot() into its root module.'
      : `Name the endpoint to serve over stdio: serveMcpStdio(app, { endpoint }). The endpoints of the app are ${list}.`;
  throw new McpOptionError('endpoint', text);
}

function streamsOf(input: Readable, output: Writable): StdioStreams {
  return { input, output, write: (text) => void output.write(text) };
}

/** Reserves stdout for the protocol: any other output there would be a malformed message. */
function takeStdout(input: Readable): [StdioStreams, restore: () => void] {
  const { stdout, stderr } = process;
  const { bytesWritten } = stdout as { bytesWritten?: number };
  const write = stdout.write.bind(stdout);
  stdout.write = stderr.write.bind(stderr);
  if (bytesWritten) {
    logger.warn(
      `${bytesWritten} bytes were written to stdout before serveMcpStdio(), where the client expects messages. If they are log lines of Nest, create the app with { logger: new McpStderrLogger() }.`,
    );
  }
  return [{ input, output: stdout, write: (text) => void write(text) }, () => void (stdout.write = write)];
}

/**
 * Logs as Nest's logger does, with all levels to stderr: stdout belongs to the protocol where an endpoint is served
 * over stdio.
 *
 * @publicApi
 */
export class McpStderrLogger extends ConsoleLogger {
  protected override printMessages(
    messages: unknown[],
    context?: string,
    level?: LogLevel,
    _stream?: 'stdout' | 'stderr',
    ...more: unknown[]
  ): void {
    super.printMessages(messages, context, level, 'stderr', ...(more as [unknown]));
  }
}
