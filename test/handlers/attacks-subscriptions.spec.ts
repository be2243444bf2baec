import { Inject, Injectable, Scope, UseGuards, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { APP_GUARD, REQUEST } from '@nestjs/core';
import { McpExecutionContext, Resource, ResourceTemplate } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
import type { RawClient } from '../support/raw-client.js';
import { as } from '../support/users.js';

/** Lets everybody read what is his own; in lists it has no say. */
@Injectable()
class OwnGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { variables } = McpExecutionContext.create(context).getArgs<{ variables: { owner: string } }>();
    return variables.owner === context.switchToHttp().getRequest().user?.sub;
  }
}

/** Of the whole app: only staff reads what is of the staff. No option "listGuards" names it. */
@Injectable()
class StaffGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    if (!McpExecutionContext.isMcp(context)) return true;
    const ofStaff = McpExecutionContext.create(context).getName().startsWith('staff://');
    return !ofStaff || context.switchToHttp().getRequest().user?.token === 'staff';
  }
}

@Injectable()
class Inboxes {
  @ResourceTemplate({ uriTemplate: 'inbox://{owner}', name: 'inbox' })
  @UseGuards(OwnGuard)
  inbox(): string {
    return 'Mail';
  }

  @Resource({ uri: 'staff://rota', name: 'rota' })
  rota(): string {
    return 'Anna';
  }

  @Resource({ uri: 'broken://guard', name: 'broken' })
  @UseGuards({
    canActivate: () => {
      throw new Error('The directory is down.');
    },
  })
  broken(): string {
    return '';
  }
}

@Injectable({ scope: Scope.REQUEST })
class ScopedInboxes {
  constructor(@Inject(REQUEST) readonly request: object) {}

  @ResourceTemplate({ uriTemplate: 'scoped://{owner}', name: 'scoped' })
  @UseGuards(OwnGuard)
  inbox(): string {
    return 'Mail';
  }
}

describe.each(ONE_ADAPTER)('subscriptions to resources with guards, on %s', (adapter) => {
  const start = testApps(adapter, {
    shared: true,
    providers: [Inboxes, ScopedInboxes, OwnGuard, { provide: APP_GUARD, useClass: StaffGuard }],
    principal: (request) => (request as { user?: { sub: string } }).user?.sub,
  });

  const subscribe = async (client: RawClient, uri: string): Promise<'yes' | 'no'> => {
    const message = { jsonrpc: '2.0', id: client.nextId(), method: 'resources/subscribe', params: { uri } };
    const { result, error } = await (await client.post(message)).json();
    if (result) return 'yes';
    expect(error).toMatchObject({ code: -32602, data: { uri } });
    return 'no';
  };

  it.each(['inbox', 'scoped'])(
    'subscriptions to resources with guards are decided by guards that look at the URI, too (%s)',
    async (scheme) => {
      const app = await start();
      const anna = await app.client(as('anna')).initialize();
      const answers = [await subscribe(anna, `${scheme}://anna`), await subscribe(anna, `${scheme}://bert`)];
      expect(answers).toEqual(['yes', 'no']);
      expect(await app.service.resourceUpdated(`${scheme}://anna`)).toBe(1);
      expect(await app.service.resourceUpdated(`${scheme}://bert`)).toBe(0);
    },
  );

  it('subscriptions to resources with guards are decided by guards of the whole app, as a read is', async () => {
    const app = await start();
    const bert = await app.client(as('bert')).initialize();
    const anna = await app.client(as('anna', 'staff')).initialize();
    expect([await subscribe(bert, 'staff://rota'), await subscribe(anna, 'staff://rota')]).toEqual(['no', 'yes']);
    expect(await app.service.resourceUpdated('staff://rota')).toBe(1);
  });

  it('subscriptions to resources with guards are refused when a guard fails, which is reported to the operator', async () => {
    const app = await start();
    const anna = await app.client(as('anna')).initialize();
    expect(await subscribe(anna, 'broken://guard')).toBe('no');
    expect(app.log.texts('error').join()).toContain('The directory is down.');
  });
});
