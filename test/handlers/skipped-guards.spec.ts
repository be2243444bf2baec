import { Injectable, Scope, UseGuards, type CanActivate, type Provider } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, serverInfo, startFailure } from '../support/app.js';
import { testApps } from '../support/test-apps.js';

@Injectable()
class Guard implements CanActivate {
  canActivate(): boolean {
    return false;
  }
}

@Injectable()
class Guarded {
  @Tool({ name: 'guarded' })
  @UseGuards(Guard)
  run(): void {}
}

@Injectable()
class Plain {
  @Tool({ name: 'plain' })
  run(): void {}
}

const SCOPED_GUARD: Provider = { provide: APP_GUARD, useClass: Guard, scope: Scope.REQUEST };

describe.each(ONE_ADAPTER)('a guard that Nest would skip, on %s,', (adapter) => {
  const begin = testApps(adapter);

  it.each<[string, Provider[], string]>([
    ['by a factory', [{ provide: 'made', useFactory: () => new Guarded() }], 'its guard Guard'],
    ['as a value', [{ provide: 'given', useValue: new Guarded() }], 'its guard Guard'],
    [
      'by a factory, beside a scoped global guard',
      [{ provide: 'made', useFactory: () => new Plain() }, SCOPED_GUARD],
      'the global guard Guard',
    ],
  ])('a guard that Nest would skip stops the start when its class is provided %s', async (_, providers, what) => {
    const module = () => ({ imports: [McpStreamableModule.forRoot({ serverInfo })], providers });
    expect((await startFailure(adapter, module)).message).toContain(`silently skip ${what}`);
  });

  it('a guard that Nest runs for a class under another token keeps the tool from its caller', async () => {
    const app = await begin({ providers: [{ provide: 'token', useClass: Guarded }] });
    const { error } = await (await app.modern().call('guarded')).json();
    expect(error).toMatchObject({ code: -32602 });
  });
});
