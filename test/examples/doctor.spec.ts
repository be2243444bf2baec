import type { ModuleMetadata } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { expectHealthy } from 'nestjs-mcp-streamable/testing';
import { describe, it } from 'vitest';
import { AppModule as AppsExample } from '../../examples/apps/app.module.js';
import { ClusterTools } from '../../examples/cluster/node.module.js';
import { ClusterTools as KubernetesTools } from '../../examples/kubernetes/app.module.js';
import { NotesTools as ProxiedNotes } from '../../examples/login-proxy/notes.tools.js';
import { NotesTools } from '../../examples/oauth/notes.tools.js';
import { OrdersModule } from '../../examples/snippets/orders.module.js';
import { ProductsController } from '../../examples/snippets/products.controller.js';
import { ShowOrder } from '../../examples/snippets/show-order.js';
import { serverInfo } from '../support/app.js';

/** Stands for the endpoint of an example that needs Redis, a database or an authorization server. */
const imports = [McpStreamableModule.forRoot({ serverInfo })];

/** The quickstart and the existing app have the same test beside their own ones. */
const EXAMPLES: Readonly<Record<string, ModuleMetadata>> = {
  'the first tool of the docs': { imports: [OrdersModule] },
  'the first routes of the docs': { imports, controllers: [ProductsController] },
  'the first tool of the guide': { imports, providers: [ShowOrder] },
  apps: { imports: [AppsExample] },
  cluster: { imports, providers: [ClusterTools] },
  kubernetes: { imports, providers: [KubernetesTools] },
  'login-proxy': { imports, providers: [ProxiedNotes] },
  oauth: { imports, providers: [NotesTools] },
};

describe('the examples', () => {
  it.each(Object.keys(EXAMPLES))('the examples have no findings of the doctor: %s', async (name) => {
    const testing = await Test.createTestingModule(EXAMPLES[name]!)
      .useMocker(() => ({}))
      .compile();
    const app = testing.createNestApplication({ logger: false });
    try {
      await expectHealthy(app);
    } finally {
      await app.close();
    }
  });
});
