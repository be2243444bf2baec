import { Controller, Get, Injectable, SetMetadata } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import {
  McpCatalogue,
  type McpCatalogueTool,
  type McpEndpointPlugin,
  McpPlugin,
  McpRegistry,
  McpStreamableModule,
  Tool,
} from 'nestjs-mcp-streamable';
import { createMcpTestClient } from 'nestjs-mcp-streamable/testing';
import { expect, it } from 'vitest';
import { serverInfo } from '../support/app.js';

const PLAN = 'plan';
const Plan = (plan: string) => SetMetadata(PLAN, plan);

const plans = new Map<string, unknown>();

/** Reads the plan of each tool as a guard would. */
@Injectable()
class Plans extends McpPlugin {
  readonly ring = 'app';
  private readonly reflector = new Reflector();

  attach(): McpEndpointPlugin {
    return {
      handler: (target) => {
        const plan: unknown = this.reflector.getAllAndOverride(PLAN, target.metadata);
        plans.set(target.key, target.metadata.length === 0 ? 'nothing to read' : plan);
        return undefined;
      },
    };
  }
}

class Base {
  @Tool({ name: 'inherited' })
  @Plan('of the base')
  inherited(): string {
    return 'inherited';
  }
}

@Injectable()
@Plan('of the class')
class Tools extends Base {
  @Tool({ name: 'decorated' })
  @Plan('of the method')
  decorated(): string {
    return 'decorated';
  }
  @Tool({ name: 'plain' })
  plain(): string {
    return 'plain';
  }
}

@Injectable()
class Replaceable {
  @Tool({ name: 'replaced' })
  @Plan('before')
  replaced(): string {
    return 'before';
  }
}
class Replacement {
  @Tool({ name: 'replaced' })
  @Plan('after')
  replaced(): string {
    return 'after';
  }
}

@Controller('orders')
class Routes {
  @Get()
  @Tool({ name: 'route' })
  @Plan('of the route')
  route(): string {
    return 'route';
  }
}

@McpCatalogue()
@Injectable()
class Catalogue {
  list(): McpCatalogueTool[] {
    return [{ name: 'listed', inputSchema: { type: 'object' } }];
  }
  @Plan('of the catalogue')
  call(): string {
    return 'listed';
  }
}

it('a plugin that is a provider of the app reads the Nest metadata of each handler, by Reflector', async () => {
  const testing = await Test.createTestingModule({
    imports: [McpStreamableModule.forRoot({ serverInfo })],
    controllers: [Routes],
    providers: [Plans, Tools, Replaceable, Catalogue],
  })
    .overrideProvider(Replaceable)
    .useClass(Replacement)
    .compile();
  const app = testing.createNestApplication({ logger: false });
  const mcp = await createMcpTestClient(app);
  try {
    app.get(McpRegistry).registerTool({ name: 'registered', handler: () => 'registered' });
    await mcp.client.listTools();
    expect(Object.fromEntries(plans)).toEqual({
      inherited: 'of the base',
      decorated: 'of the method',
      plain: 'of the class',
      replaced: 'after',
      route: 'of the route',
      listed: 'of the catalogue',
      registered: 'nothing to read',
    });
  } finally {
    await mcp.close();
    await app.close();
  }
});
