import { Injectable, type Type } from '@nestjs/common';
import { McpArgs, McpStreamableModule, Prompt, Resource, ResourceTemplate, Tool } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER, TestApp, serverInfo, startFailure } from '../support/app.js';

@Injectable()
class OfTool {
  @Tool({ name: 'find', inputSchema: z.object({ id: z.string() }) })
  find(@McpArgs('ID') id: string): string {
    return id;
  }
}
@Injectable()
class OfPrompt {
  @Prompt({ name: 'ask', arguments: [{ name: 'id' }] })
  ask(@McpArgs('ID') id: string): string {
    return id;
  }
}
@Injectable()
class OfTemplate {
  @ResourceTemplate({ uriTemplate: 'orders://{id}', name: 'order' })
  order(@McpArgs('ID') id: string): string {
    return id;
  }
}
@Injectable()
class OfResource {
  @Resource({ uri: 'orders://all', name: 'orders' })
  orders(@McpArgs('ID') id: string): string {
    return id;
  }
}
@Injectable()
class Known {
  @ResourceTemplate({ uriTemplate: 'orders://{id}', name: 'order' })
  order(@McpArgs('id') id: string, @McpArgs('uri') uri: string): string {
    return id + uri;
  }
  @Tool({ name: 'open', inputSchema: z.looseObject({ id: z.string() }) })
  open(@McpArgs('other') other: string): string {
    return other;
  }
  @Prompt({ name: 'count', inputSchema: z.object({ limit: z.coerce.number().min(5) }) })
  count(@McpArgs('limit') limit: number): string {
    return String(limit);
  }
}

const moduleOf = (provider: Type) => ({
  imports: [McpStreamableModule.forRoot({ serverInfo })],
  providers: [provider],
});

describe.each(ONE_ADAPTER)('an argument by its name, on %s', (adapter) => {
  it.each<[string, Type, string]>([
    ['tool', OfTool, 'Available: "id".'],
    ['prompt', OfPrompt, 'Available: "id".'],
    ['resource template', OfTemplate, 'Available: "id", "uri".'],
    ['resource', OfResource, 'Available: "uri".'],
  ])(
    'an argument by its name that the %s does not have stops the start, with the names that exist',
    async (_kind, provider, available) => {
      const { message } = await startFailure(adapter, () => moduleOf(provider));
      expect(message).toContain('is the argument "ID", which is not in its schema.');
      expect(message).toContain(available);
    },
  );

  it('an argument by its name that exists, or is allowed by an open schema, does not stop the start', async () => {
    const app = await TestApp.of(adapter, moduleOf(Known));
    await app.close();
  });
});
