import type { IncomingMessage } from 'node:http';
import {
  type CanActivate,
  Controller,
  type ExecutionContext,
  ForbiddenException,
  Get,
  Inject,
  Param,
  Post,
  Req,
  Res,
  SetMetadata,
  type Type,
  UseGuards,
  VERSION_NEUTRAL,
} from '@nestjs/common';
import { Decorated } from '../core/common/decorated.js';
import { isCrossOrigin } from '../core/http/edge/host-origin.js';
import { isLocalCaller } from '../core/protocol/local-caller.js';
import { LiveFeed } from './live-feed.js';
import type { ResolvedLiveOptions } from './live.options.js';
import { LIVE_PAGE, PAGE_HEADERS } from './live-page.js';

/** A form, or a page of another origin, cannot send this header without asking first. */
const ACTION_HEADER = 'mcp-live-action';

const STORE_AWAY = {
  error: 'STORE_AWAY',
  message: 'The store of the session, call or task does not answer. See the server log.',
};

const SWITCH_UNKEPT = {
  error: 'STORE_AWAY',
  message: 'The tool is switched on this node, but the state store does not answer. See the server log.',
};

/**
 * Every response has these headers, so that its data is not cached or leaked. The stream has the `Cache-Control` of
 * streams.
 */
const PRIVATE = {
  'Cache-Control': 'no-store',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Cross-Origin-Resource-Policy': 'same-origin',
} as const;

/**
 * Makes the controller of the live page, with its path, guards and decorators. Its version is neutral: browsers send none.
 *
 * A response is written without the app's interceptors and hooks: those that wrap results of controllers would break
 * the stream, and a Content-Security-Policy of the app would break or weaken the page.
 */
export function createLiveController({ path, guards, decorators }: ResolvedLiveOptions): Type {
  @Controller({ path, version: VERSION_NEUTRAL })
  @UseGuards(...(guards ?? [LoopbackGuard]))
  // Not part of the app's REST description; the key is that of @ApiExcludeController().
  @SetMetadata('swagger/apiExcludeController', [true])
  @Decorated(decorators)
  class McpLiveController {
    constructor(@Inject(LiveFeed) private readonly feed: LiveFeed) {}

    @Get()
    page(@Req() request: object, @Res() response: object): void {
      if (this.refused(request, response, false)) return;
      this.feed.responder.write(response, 200, { ...PRIVATE, ...PAGE_HEADERS }, LIVE_PAGE);
    }

    @Get('events')
    events(@Req() request: object, @Res() response: object): void {
      if (this.refused(request, response, false)) return;
      // A HEAD would hold its response open.
      if (rawRequest(request).method !== 'GET') return this.answer(response, 405, { error: 'METHOD_NOT_ALLOWED' });
      if (this.feed.full) return this.answer(response, 503, this.feed.refusal, { 'Retry-After': '5' });
      const stream = this.feed.responder.stream(response);
      if (!stream) return;
      for (const [name, value] of Object.entries(PRIVATE)) (response as HttpResponse).header(name, value);
      stream.start(this.feed.updates$(stream));
    }

    /** Answers with what the page shows of one call, session or handler: `?endpoint=0&kind=tool&key=find_order`. */
    @Get('details')
    async details(@Req() request: object, @Res() response: object): Promise<void> {
      if (this.refused(request, response, false)) return;
      const { searchParams } = new URL(rawRequest(request).url ?? '', 'http://localhost');
      const [endpoint, kind = '', key = ''] = ['endpoint', 'kind', 'key'].map((name) => searchParams.get(name) ?? '');
      const found = this.feed.details(Number(endpoint), kind, key).then((details) => ({ details }));
      const answer = await found.catch(() => undefined);
      if (answer?.details) return this.answer(response, 200, answer.details);
      if (!answer) return this.answer(response, 503, STORE_AWAY);
      this.answer(response, 404, {
        error: 'UNKNOWN',
        message: 'Not found. It may have ended, or belong to another node.',
      });
    }

    /** Tells whether the page may be a client of an endpoint. */
    @Get('trial')
    trial(@Req() request: object, @Res() response: object): void {
      if (this.refused(request, response, false)) return;
      const raw = rawRequest(request);
      const endpoint = Number(new URL(raw.url ?? '', 'http://localhost').searchParams.get('endpoint'));
      const refusal = this.feed.trialRefusal(endpoint, raw);
      this.answer(response, 200, { allowed: refusal === undefined, refusal });
    }

    @Post('sessions/:key/end')
    async end(@Req() request: object, @Res() response: object, @Param('key') key: string): Promise<void> {
      if (this.refused(request, response, true)) return;
      const ended = await this.feed.endSession(key).catch(() => undefined);
      if (ended) return this.answer(response, 200, { ended });
      if (ended === undefined) return this.answer(response, 503, STORE_AWAY);
      const message = 'Session not found. It may have ended.';
      this.answer(response, 404, { error: 'UNKNOWN_SESSION', message });
    }

    @Post('calls/:key/cancel')
    async cancel(@Req() request: object, @Res() response: object, @Param('key') key: string): Promise<void> {
      if (this.refused(request, response, true)) return;
      const cancelled = await this.feed.cancelCall(key).catch(() => undefined);
      if (cancelled) return this.answer(response, 200, { cancelled });
      if (cancelled === undefined) return this.answer(response, 503, STORE_AWAY);
      const message = `Call or task not found on this node (${this.feed.nodeIds.join(', ')}). It may have ended, or run on another node.`;
      this.answer(response, 404, { error: 'UNKNOWN_CALL', message });
    }

    @Post('tools/:key/disable')
    disable(@Req() request: object, @Res() response: object, @Param('key') key: string): Promise<void> {
      return this.switchTool(request, response, key, false);
    }

    @Post('tools/:key/enable')
    enable(@Req() request: object, @Res() response: object, @Param('key') key: string): Promise<void> {
      return this.switchTool(request, response, key, true);
    }

    private async switchTool(request: object, response: object, key: string, on: boolean): Promise<void> {
      if (this.refused(request, response, true)) return;
      const switched = await this.feed.switchTool(key, on).catch(() => undefined);
      if (switched) return this.answer(response, 200, { [on ? 'enabled' : 'disabled']: true });
      if (switched === undefined) return this.answer(response, 503, SWITCH_UNKEPT);
      const message = 'Tool not found. It may have been removed.';
      this.answer(response, 404, { error: 'UNKNOWN_TOOL', message });
    }

    /**
     * Checks, after the guards, that the page itself sends the request, or a user navigates to it, and that the Host is not the
     * name of an attacker. Otherwise refuses it.
     */
    private refused(request: object, response: object, action: boolean): boolean {
      const raw = rawRequest(request);
      const { headers } = raw;
      const { origin } = headers;
      const host = headers.host ?? (headers[':authority'] as string | undefined);
      if (isCrossOrigin(origin, host) || (action && origin === undefined)) {
        const message = `Only the live page itself may send this request: the Origin must match the Host. Configure a proxy to forward the Host.`;
        this.answer(response, 403, { error: 'FORBIDDEN_ORIGIN', message });
        return true;
      }
      const refusal = this.feed.refusalOf(raw);
      if (refusal) {
        this.answer(response, refusal.status, { error: refusal.code, message: refusal.message });
        return true;
      }
      if (!action || headers[ACTION_HEADER] === '1') return false;
      const message = `The header "${ACTION_HEADER}: 1" is missing. Send it with each action.`;
      this.answer(response, 403, { error: 'MISSING_HEADER', message });
      return true;
    }

    private answer(
      response: object,
      status: number,
      body: object,
      headers: Readonly<Record<string, string>> = {},
    ): void {
      const all = { ...PRIVATE, 'Content-Type': 'application/json; charset=utf-8', ...headers };
      this.feed.responder.write(response, status, all, JSON.stringify(body));
    }
  }
  return McpLiveController;
}

/** The headers of this response of Express or Fastify override those of Node's response. */
interface HttpResponse {
  header(name: string, value: string): unknown;
}

/** Returns Node's request behind that of the adapter. */
function rawRequest(request: object): IncomingMessage {
  return (request as { raw?: IncomingMessage }).raw ?? (request as IncomingMessage);
}

/** Admits callers of this machine only, for `unguarded: 'loopback'`. */
class LoopbackGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    if (isLocalCaller(rawRequest(context.switchToHttp().getRequest<object>()))) return true;
    const message =
      'The live page is open on this machine only ("unguarded"): call it by a loopback name such as localhost, and not through a proxy. For others, give McpLiveModule "guards".';
    throw new ForbiddenException({ error: 'NOT_LOOPBACK', message });
  }
}
