import { Controller, Injectable, Scope, UseGuards, type CanActivate, type Provider } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, serverInfo, startFailure, type TestAppOptions } from '../support/app.js';
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

@Controller('controlled')
@UseGuards(Guard)
class Controlled {
  @Tool({ name: 'controlled' })
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

  it.each<[string, Partial<TestAppOptions>, string]>([
    ['a class under another token', { providers: [{ provide: 'token', useClass: Guarded }] }, 'guarded'],
    ['the class of a controller', { module: { controllers: [Controlled] } }, 'controlled'],
  ])('a guard that Nest runs for %s keeps the tool from its caller', async (_, options, tool) => {
    const app = await begin(options);
    const { error } = await (await app.modern().call(tool)).json();
    expect(error).toMatchObject({ code: -32602 });
  });
});
