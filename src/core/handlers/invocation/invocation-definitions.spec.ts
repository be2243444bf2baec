import {
  Body,
  Headers,
  Injectable,
  Query,
  Req,
  Scope,
  UseGuards,
  ValidationPipe,
  type CanActivate,
  type Provider,
} from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { IsInt, IsString } from 'class-validator';
import { afterEach, describe, expect, it } from 'vitest';
import { EntryProvider, InvokingApp } from '../../../../test/support/invoking-app.js';
import { McpArgs } from '../decorators/param.decorators.js';

class FindDto {
  @IsString()
  id!: string;
  @IsInt()
  limit!: number;
}

@Injectable()
class Guard implements CanActivate {
  canActivate(): boolean {
    return false;
  }
}

@EntryProvider()
@Injectable()
class Typed {
  find(@McpArgs() args: FindDto) {
    return [args instanceof FindDto, Object.assign({}, args)];
  }
  undecorated(@Body() args: FindDto, @Req() request: { headers: object }, @Headers('X-Caller') caller: string) {
    return [args instanceof FindDto, 'x-caller' in request.headers, caller];
  }
  local(@McpArgs(new ValidationPipe({ transform: true })) args: FindDto) {
    return args instanceof FindDto;
  }
}

@EntryProvider()
@Injectable()
class Guarded {
  @UseGuards(Guard)
  run() {}
}

@EntryProvider()
@Injectable()
class Routed {
  run(@Query('id') _id: string) {}
}

/** Looks into everything that it gets, without asking what it is, as apps do. */
const trimming = {
  transform(value: unknown): unknown {
    if (typeof value !== 'object' || value === null) return value;
    for (const [key, each] of Object.entries(value)) Object.assign(value, { [key]: this.transform(each) });
    return value;
  },
};

describe('handlers as Nest sees them', () => {
  let app: InvokingApp;
  afterEach(() => app.close());
  const start = async (providers: Provider[], pipe?: object): Promise<void> => {
    const configure = pipe && {
      configure: (nest: { useGlobalPipes(pipe: never): void }) => nest.useGlobalPipes(pipe as never),
    };
    app = await InvokingApp.start({ adapter: 'express', providers, ...configure });
  };

  it('the invoker of a handler validates by the type of a parameter', async () => {
    await start([Typed], new ValidationPipe({ transform: true }));
    const args = { id: 'a', limit: 1 };
    expect(await app.run({ handler: 'Typed.find', args })).toEqual([true, args]);
    expect(await app.run({ handler: 'Typed.undecorated', args }, { 'x-caller': 'anna' })).toEqual([true, true, 'anna']);
    await expect(app.run({ handler: 'Typed.find', args: { id: 'a' } })).rejects.toMatchObject({
      response: { message: ['limit must be an integer number'] },
    });
  });

  it('the invoker of a handler validates by a pipe of the parameter', async () => {
    await start([Typed]);
    expect(await app.run({ handler: 'Typed.local', args: { id: 'a', limit: 1 } })).toBe(true);
    await expect(app.run({ handler: 'Typed.local' })).rejects.toThrow('Bad Request');
  });

  it('the invoker of a handler keeps what is not of the client from pipes that look into objects', async () => {
    await start([Typed], trimming);
    expect(await app.run({ handler: 'Typed.find', args: { id: 'a' } })).toEqual([false, { id: 'a' }]);
  });

  it('the invoker of a handler keeps what is not of the client from pipes that change whatever they get', async () => {
    const seen: unknown[] = [];
    const changing = {
      transform(value: unknown) {
        seen.push(value);
        return { changed: true };
      },
    };
    await start([Typed], changing);
    expect(await app.run({ handler: 'Typed.find', args: { id: 'a' } })).toEqual([false, { changed: true }]);
    expect(seen).toEqual([{ id: 'a' }]);
  });

  it('the invoker of a handler refuses a handler whose guard Nest would skip', async () => {
    await start([
      { provide: 'made', useFactory: () => new Guarded() },
      { provide: 'given', useValue: new Guarded() },
    ]);
    for (const name of ['made', 'given']) {
      expect(() => app.invoker({ handler: `${name}.run` })).toThrow(/silently skip its guard Guard/);
    }
  });

  it('the invoker of a handler runs the guard of a provider given by useClass, under whatever token', async () => {
    await start([{ provide: 'token', useClass: Guarded }]);
    await expect(app.run({ handler: 'token.run' })).rejects.toMatchObject({ status: 403 });
  });

  it('the invoker of a handler refuses a handler around which Nest would skip a scoped global guard', async () => {
    @Injectable()
    class Unmarked {
      run() {}
    }
    await start([Unmarked, { provide: APP_GUARD, useClass: Guard, scope: Scope.REQUEST }]);
    expect(() => app.invoker({ handler: 'Unmarked.run' })).toThrow(/silently skip the global guard Guard/);
  });

  it('the invoker of a handler refuses parameters that only a route has, and methods that are not there', async () => {
    await start([Routed]);
    expect(() => app.invoker({ handler: 'Routed.run' })).toThrow(
      /Routed\.run cannot be served: a parameter has @Query/,
    );
    expect(() => app.invoker({ handler: 'Routed.nothing' })).toThrow(/no method "nothing"/);
  });
});
