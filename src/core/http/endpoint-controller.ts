import { Controller, Delete, Get, Post, Req, Res, SetMetadata, type Type, UseFilters, UseGuards } from '@nestjs/common';
import { Decorated } from '../common/decorated.js';
import { EndpointRoute, type EndpointKey } from './edge/endpoint-route.js';
import type { ResolvedExtras } from './endpoint-extras.js';
import { McpExceptionFilter } from './mcp-exception.filter.js';
import { McpController } from './mcp.controller.js';

/**
 * Creates the controller of one endpoint, with its path, version, guards and decorators. It declares its own routes, because the
 * edge identifies them by a mark on their methods. The edge refuses other HTTP methods before (E2).
 *
 * @internal
 */
export function createEndpointController(endpoint: EndpointKey, extras: ResolvedExtras): Type<McpController> {
  const { path, version, decorators, guards, sessionGuard } = extras;
  const OfEndpoint = EndpointRoute(endpoint);

  @Controller({ path, version })
  @UseGuards(...guards, sessionGuard)
  @UseFilters(McpExceptionFilter)
  // The controller is no part of the app's REST description; the key is that of @ApiExcludeController().
  @SetMetadata('swagger/apiExcludeController', [true])
  @Decorated(decorators)
  class McpEndpointController extends McpController {
    @Post()
    @OfEndpoint
    override post(@Req() request: object, @Res() response: object): void | Promise<void> {
      return super.post(request, response);
    }

    @Get()
    @OfEndpoint
    override get(@Req() request: object, @Res() response: object): Promise<void> {
      return super.get(request, response);
    }

    @Delete()
    @OfEndpoint
    override delete(@Req() request: object, @Res() response: object): void | Promise<void> {
      return super.delete(request, response);
    }
  }
  return McpEndpointController;
}
