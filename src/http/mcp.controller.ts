import {
  type CanActivate,
  Controller,
  Delete,
  Get,
  Inject,
  Options,
  Post,
  Req,
  Res,
  SetMetadata,
  type Type,
  UseFilters,
  UseGuards,
} from '@nestjs/common';
import { EndpointRoute, type EndpointKey } from './edge/endpoint-route.js';
import { McpEdgeGuard } from './mcp-edge.guard.js';
import { McpExceptionFilter } from './mcp-exception.filter.js';
import { McpHttpHandler } from './mcp-http-handler.js';
import type { McpSessionGuard } from './mcp-session.guard.js';

/** What a controller is made from; known before the app starts, since Nest makes controllers synchronously. */
export interface McpControllerOptions {
  readonly endpoint: EndpointKey;
  readonly path: string;
  readonly guards: readonly (Type<CanActivate> | CanActivate)[];
  readonly sessionGuard: Type<McpSessionGuard>;
}

/**
 * The controller of one endpoint. A class of its own for each, routes included: their metadata says whose they are. Other
 * methods never get here: the edge refuses them (E2).
 *
 * @internal
 */
export function createMcpController({ endpoint, path, guards, sessionGuard }: McpControllerOptions): Type {
  const OfEndpoint = EndpointRoute(endpoint);

  @Controller(path)
  @UseGuards(McpEdgeGuard, ...guards, sessionGuard)
  @UseFilters(McpExceptionFilter)
  // Not part of the app's REST description; the key is that of @ApiExcludeController().
  @SetMetadata('swagger/apiExcludeController', [true])
  class McpController {
    constructor(@Inject(McpHttpHandler) private readonly handler: McpHttpHandler) {}

    @Post()
    @OfEndpoint
    post(@Req() request: object, @Res() response: object): Promise<void> {
      return this.handler.post(request, response);
    }

    @Get()
    @OfEndpoint
    get(@Req() request: object, @Res() response: object): Promise<void> {
      return this.handler.get(request, response);
    }

    @Delete()
    @OfEndpoint
    delete(@Req() request: object, @Res() response: object): Promise<void> {
      return this.handler.delete(request, response);
    }

    @Options()
    @OfEndpoint
    options(): never {
      return this.handler.options();
    }
  }
  return McpController;
}
