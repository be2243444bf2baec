import {
  type CanActivate,
  Controller,
  type ControllerOptions,
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
import { McpOptionError } from '../base/option-checks.js';
import { EndpointRoute, type EndpointKey } from './edge/endpoint-route.js';
import { McpEdgeGuard } from './mcp-edge.guard.js';
import { McpExceptionFilter } from './mcp-exception.filter.js';
import { McpHttpHandler } from './mcp-http-handler.js';
import type { PlatformRequest } from './mcp-incoming.js';
import type { McpSessionGuard } from './mcp-session.guard.js';

/** What a controller is made from; known before the app starts, since Nest makes controllers synchronously. */
export interface McpControllerOptions {
  readonly endpoint: EndpointKey;
  readonly path: string;
  readonly version: NonNullable<ControllerOptions['version']>;
  /** Of the app; they run before those that make it a controller, so that they can replace nothing of it. */
  readonly decorators: readonly ClassDecorator[];
  readonly guards: readonly (Type<CanActivate> | CanActivate)[];
  readonly sessionGuard: Type<McpSessionGuard>;
}

/**
 * The controller of one endpoint. A class of its own for each, routes included: their metadata says whose they are. Other
 * methods never get here: the edge refuses them (E2).
 *
 * @internal
 */
export function createMcpController(options: McpControllerOptions): Type {
  const { endpoint, path, version, decorators, guards, sessionGuard } = options;
  const OfEndpoint = EndpointRoute(endpoint);

  @Controller({ path, version })
  @UseGuards(McpEdgeGuard, ...guards, sessionGuard)
  @UseFilters(McpExceptionFilter)
  // Not part of the app's REST description; the key is that of @ApiExcludeController().
  @SetMetadata('swagger/apiExcludeController', [true])
  @Decorated(decorators)
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
    options(@Req() request: PlatformRequest): never {
      return this.handler.options(request);
    }
  }
  return McpController;
}

/** In the order in which they would stand above the class. @throws McpOptionError for one that is not for classes */
function Decorated(decorators: readonly ClassDecorator[]): ClassDecorator {
  return (target) => {
    const refusal = (reason: string): McpOptionError =>
      new McpOptionError(
        'decorators',
        `The option "decorators" has one that cannot be applied to the controller: ${reason}. Give what decorators of classes return, such as [Public(), SkipThrottle()].`,
      );
    let decorated: unknown;
    try {
      decorated = Reflect.decorate([...decorators], target);
    } catch (error) {
      throw refusal(String(error));
    }
    if (decorated === target || (decorated as Type).prototype instanceof target) return decorated as typeof target;
    throw refusal('it returned something else than the class');
  };
}
