import { Injectable, type Type } from '@nestjs/common';
import { McpArgs, McpCtx, Prompt, Resource, ResourceTemplate, Tool, type McpContext } from 'nestjs-mcp-streamable';
import { nameOf } from '../support/kinds.js';

type Decorator = MethodDecorator & ClassDecorator;

interface FourOptions {
  onClass?: Decorator[];
  onMethods?: Decorator[];
  /** What each of them does, given the instance of its provider, too. @default says who it is */
  run?: (context: McpContext, args: Record<string, unknown>, self: object) => unknown;
}

function all(decorators: readonly Decorator[]): Decorator {
  const applied = (...target: [never]): void => {
    for (const decorate of decorators) decorate(...target);
  };
  return applied as unknown as Decorator;
}

/** A provider with one handler of each kind, see `nameOf()`. */
export function fourOf(
  host: string,
  { onClass = [], onMethods = [], run = () => host }: FourOptions = {},
): Type<object> {
  const around = all(onMethods);

  @all(onClass)
  @Injectable()
  class Host {
    @around
    @Tool({ name: host, inputSchema: { type: 'object', properties: {} } })
    tool(@McpArgs() args: Record<string, unknown>, @McpCtx() context: McpContext): unknown {
      return run(context, args, this);
    }
    @around
    @Resource({ uri: nameOf('resource', host), name: host })
    resource(@McpArgs() args: Record<string, unknown>, @McpCtx() context: McpContext): unknown {
      return run(context, args, this);
    }
    @around
    @ResourceTemplate({ uriTemplate: nameOf('template', host), name: host })
    template(@McpArgs() args: Record<string, unknown>, @McpCtx() context: McpContext): unknown {
      return run(context, args, this);
    }
    @around
    @Prompt({ name: host, inputSchema: { type: 'object' } })
    prompt(@McpArgs() args: Record<string, unknown>, @McpCtx() context: McpContext): unknown {
      return run(context, args, this);
    }
  }
  Object.defineProperty(Host, 'name', { value: `${host}Host` });
  return Host;
}
