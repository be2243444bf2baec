import { shown } from '../wire/wire.messages.js';

/** What users read of this room. */
export const protocolMessages = {
  badInitialize: (what: string, got: unknown) =>
    `"initialize" needs params.${what}; got ${shown(got)}. See the specification, "Lifecycle".`,
  malformedInitialize: ({ path, message }: { path: string; message: string }) =>
    `"initialize" is not as the specification has it: "${path}": ${message}. See the specification, "Lifecycle".`,
  initializeTooLarge: (size: number, max: number) =>
    `The parameters of "initialize" have ${size} characters as JSON; ${max} is the most. Say less of the client.`,
  tooManySessions: (max: number) =>
    `This server has ${max} sessions, the most it may have ("maxSessions"). Try again later.`,
  tooManyOfPrincipal: (max: number) =>
    `This caller has ${max} sessions, the most that one may have ("maxSessionsPerPrincipal"). End a session with DELETE, or wait until one is idle for long enough.`,
  tooManyAnonymous: (max: number) =>
    `The anonymous callers of this server have ${max} sessions together, the most they may have ("maxAnonymousSessions"). Sign in, or try again later.`,
  initializeFailed: () => 'The session could not be started. The log of the server says why.',
  modernUnsupported: (requested: unknown) =>
    `Protocol revision ${shown(requested)} is not served here. Use one of the supported ones.`,
  legacyServer: () =>
    'The server that the option "server" makes does not speak revision 2026-07-28, so its clients are asked to use an older one. To serve it, make the server with { supportedProtocolVersions: [...LEGACY_REVISIONS, ...MODERN_REVISIONS] }; to say that this is meant, set "eras" to "legacy".',
  legacyUnsupported: (supported: readonly string[]) =>
    `This endpoint serves no sessions. Send requests of revision ${supported.join(' or ')}, each with its "_meta".`,
  modernResponse: () => 'A response of revision 2026-07-28 cannot be posted: answers travel with a repeated request.',
  modernBatch: () => 'Revision 2026-07-28 has no batches. Send the messages one by one.',
  cursorOnPost: () =>
    'Last-Event-ID was sent with a POST. A stream is resumed by GET; send the message without the header.',
  noSessionId: (crossOrigin = false) =>
    `Mcp-Session-Id is missing. Send "initialize" first, and its Mcp-Session-Id with every request.${crossOrigin ? ' A page of another origin can read that header only if CORS of this server exposes it: app.enableCors({ origin, ...mcpCors() }).' : ''}`,
  unknownSession: () => 'There is no such session. It may have ended; start a new one with "initialize".',
  initializeInBatch: () => '"initialize" cannot be part of a batch. Send it alone.',
  initializedAlready: () =>
    'This session is initialized already. Send "initialize" without Mcp-Session-Id to start another one.',
  wrongRevision: (got: string, negotiated: string) =>
    `MCP-Protocol-Version is ${shown(got)}, but this session negotiated "${negotiated}". Send that.`,
  unsupportedRevision: (got: string, supported: readonly string[]) =>
    `MCP-Protocol-Version ${shown(got)} is not supported. Supported: ${supported.join(', ')}.`,
  badSessionId: (id: unknown) =>
    `The option "sessionIdGenerator" returned ${shown(id)}: a session id must be 16 to 256 visible ASCII characters.`,
  sessionIdTaken: () =>
    'The option "sessionIdGenerator" returned an id that is in use: ids must be unguessable and unique.',
};
