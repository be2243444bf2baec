import {
  ForbiddenException,
  Injectable,
  UseGuards,
  type CanActivate,
  type ExecutionContext,
  type Type,
} from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { McpExecutionContext, Tool } from 'nestjs-mcp-streamable';
import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestApp } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
import { KINDS, messageOf, nameOf, page, resultText } from '../support/kinds.js';
import type { RawClient } from '../support/raw-client.js';
import { expectRefusal } from '../support/refusal.js';
import { as } from '../support/users.js';
import { fourOf } from './four.js';

/** Who was asked about what: `class of admins` */
let asked: string[] = [];

const userOf = (context: ExecutionContext): { sub?: string; token?: string } =>
  context.switchToHttp().getRequest().user ?? {};

/** A guard that counts, and lets in whose token is not `no-<name>`. */
function countingGuard(name: string): Type<CanActivate> {
  @Injectable()
  class Guard implements CanActivate {
    canActivate(context: ExecutionContext): boolean {
      if (!McpExecutionContext.isMcp(context)) return true;
      asked.push(`${name} of ${McpExecutionContext.create(context).getName()}`);
      return userOf(context).token !== `no_${name}`;
    }
  }
  return Guard;
}

const OfClass = countingGuard('class');
const OfMethod = countingGuard('method');
const Named = countingGuard('named');
const Unnamed = countingGuard('unnamed');

/** Decides by the arguments. */
@Injectable()
class OwnerGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const mcp = McpExecutionContext.create(context);
    const args = mcp.getArgs<{ owner?: string; uri?: string; variables?: { id: string } }>();
    asked.push(`owner of ${mcp.getName()}`);
    return (args.owner ?? args.variables?.id ?? args.uri) === userOf(context).sub;
  }
}

@Injectable()
class BrokenGuard implements CanActivate {
  canActivate(): never {
    throw new TypeError('secret of the database');
  }
}

@Injectable()
class DenyingGuard implements CanActivate {
  canActivate(): never {
    throw new ForbiddenException('Not on Sundays');
  }
}

const Guarded = fourOf('guarded', { onClass: [UseGuards(OfClass)], onMethods: [UseGuards(OfMethod)] });
const Open = fourOf('open');
const Owned = fourOf('owned', { onMethods: [UseGuards(OwnerGuard)] });
const OwnedAndGuarded = fourOf('both', { onMethods: [UseGuards(OwnerGuard, OfMethod)] });
const Broken = fourOf('broken', { onMethods: [UseGuards(BrokenGuard)] });
const Denied = fourOf('denied', { onClass: [UseGuards(DenyingGuard)] });
const globalGuards = [Named, Unnamed].map((useClass) => ({ provide: APP_GUARD, useClass }));

describe.each(ONE_ADAPTER)('a list whose entries have guards, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, denials: 'http', errorDetails: false });
  const session = (app: TestApp, token = 'fresh'): Promise<RawClient> => app.client(as('anna', token)).initialize();
  beforeEach(() => {
    asked = [];
  });

  it.each(KINDS)(
    'a list whose entries have guards runs the guards of class and method once for each entry (%s)',
    async (kind) => {
      const app = await start({ providers: [Guarded, Open, ...globalGuards] });
      const client = await session(app);
      asked = [];
      expect((await page(client, kind)).names).toEqual([nameOf(kind, 'guarded'), nameOf(kind, 'open')]);
      const name = nameOf(kind, 'guarded');
      expect(asked).toEqual([`class of ${name}`, `method of ${name}`]);
      // One that hides ends it.
      asked = [];
      expect((await page(client, kind, { headers: as('anna', 'no_class') })).names).toEqual([nameOf(kind, 'open')]);
      expect(asked).toEqual([`class of ${name}`]);
      expect((await page(client, kind, { headers: as('anna', 'no_method') })).names).toEqual([nameOf(kind, 'open')]);
    },
  );

  it.each(KINDS)(
    'a list whose entries have guards runs the global guards that "listGuards" names, and only those (%s)',
    async (kind) => {
      const app = await start({ providers: [Guarded, Open, ...globalGuards], listGuards: [Named] });
      const client = await session(app);
      asked = [];
      expect((await page(client, kind)).names).toHaveLength(2);
      const [guarded, open] = [nameOf(kind, 'guarded'), nameOf(kind, 'open')];
      expect(asked.toSorted()).toEqual(
        [`named of ${guarded}`, `class of ${guarded}`, `method of ${guarded}`, `named of ${open}`].toSorted(),
      );
      expect((await page(client, kind, { headers: as('anna', 'no_named') })).names).toEqual([]);
      // The other one has its say when something is called.
      expect((await page(client, kind, { headers: as('anna', 'no_unnamed') })).names).toEqual([guarded, open]);
      for (const host of ['guarded', 'open']) {
        const message = messageOf(client, kind, host);
        const denied = await client.post(message, as('anna', 'no_unnamed'));
        await expectRefusal(denied, { status: 403, code: -32000, id: message.id });
      }
      asked = [];
      await (await client.post(messageOf(client, kind, 'open'))).text();
      expect(asked).toEqual([`named of ${open}`, `unnamed of ${open}`]);
    },
  );

  it.each(KINDS)(
    'a list whose entries have guards shows an entry whose guard needs arguments, which then decides about the call (%s)',
    async (kind) => {
      const app = await start({ providers: [Owned, OwnedAndGuarded] });
      const client = await session(app);
      expect((await page(client, kind)).names).toEqual([nameOf(kind, 'owned'), nameOf(kind, 'both')]);
      expect((await page(client, kind, { headers: as('anna', 'no_method') })).names).toEqual([nameOf(kind, 'owned')]);
      asked = [];
      const mine = await client.post(messageOf(client, kind, 'owned', { owner: 'anna', id: 'anna' }));
      const foreign = messageOf(client, kind, 'owned', { owner: 'bert', id: 'bert' });
      const refusal = { status: 403, code: -32000, id: foreign.id };
      if (kind === 'resource') await mine.text();
      else expect(resultText((await mine.json()).result)).toBe('owned');
      await expectRefusal(await client.post(foreign), refusal);
      expect(asked).toEqual(Array(2).fill(`owner of ${nameOf(kind, 'owned')}`));
    },
  );

  it.each(KINDS)(
    'a list whose entries have guards hides an entry whose guard throws, and reports errors that are no denials to the operator (%s)',
    async (kind) => {
      const app = await start({ providers: [Broken, Denied, Open] });
      const client = await session(app);
      for (let time = 0; time < 3; time++) {
        expect((await page(client, kind)).names).toEqual([nameOf(kind, 'open')]);
      }
      // Each process says it once.
      const errors = app.log.texts('error');
      expect(errors).toHaveLength(app.nodes.length);
      for (const error of errors)
        expect(error).toMatch(new RegExp(`brokenHost\\.${kind} .*secret of the database`, 's'));

      const denied = messageOf(client, kind, 'denied');
      const sunday = { status: 200, code: -32602, id: denied.id, says: ['not found'] };
      await expectRefusal(await client.post(denied), sunday);
      const body = await (await client.post(messageOf(client, kind, 'broken'))).text();
      expect(body).not.toMatch(/secret|\bat /);
      const { result, error } = JSON.parse(body);
      if (kind === 'tool') expect(result).toMatchObject({ isError: true });
      else expect(error).toMatchObject({ code: -32603 });
    },
  );

  it('a list whose entries have guards runs the guards of the entries of a page, and of those that it skips', async () => {
    @Injectable()
    @UseGuards(OfClass)
    class Many {}
    for (let n = 0; n < 100; n++) {
      const name = `tool${n}`;
      const method = { value: () => name, configurable: true };
      Object.defineProperty(Many.prototype, name, method);
      // Every third one is for some only.
      const decorators = [Tool({ name }), ...(n % 3 === 0 ? [UseGuards(OfMethod)] : [])];
      for (const decorate of decorators) decorate(Many.prototype, name, method);
    }
    const app = await start({ providers: [Many], pageSize: 10 });
    const client = await session(app, 'no_method');
    const names: string[] = [];
    let cursor: string | undefined;
    let pages = 0;
    asked = [];
    do {
      const next = await page(client, 'tool', { cursor });
      expect(next.names.length).toBeLessThanOrEqual(10);
      names.push(...next.names);
      cursor = next.nextCursor;
      pages++;
      // What is behind the page is looked at with the next one: at most the rest of the last chunk is asked twice.
      expect(asked.filter((question) => question.startsWith('class')).length).toBeLessThanOrEqual(pages * 20);
    } while (cursor !== undefined);
    expect(names).toEqual([...Array(100).keys()].filter((n) => n % 3 !== 0).map((n) => `tool${n}`));

    // A list in one go: each guard once for each entry.
    const other = await start({ providers: [Many] });
    const all = await session(other);
    asked = [];
    expect((await page(all, 'tool')).names).toHaveLength(100);
    expect(new Set(asked).size).toBe(asked.length);
    expect(asked).toHaveLength(100 + 34);
  });

  it('a list whose entries have guards runs the guards of different entries at the same time', async () => {
    const hold = gate();
    let waiting = 0;
    const patient: CanActivate = {
      async canActivate() {
        waiting++;
        await hold.promise;
        return true;
      },
    };
    const hosts = Array.from({ length: 8 }, (_, n) => fourOf(`host${n}`, { onClass: [UseGuards(patient)] }));
    const app = await start({ providers: hosts });
    const client = await session(app);
    const listing = page(client, 'tool');
    await expect.poll(() => waiting).toBe(8);
    hold.open();
    expect((await listing).names).toHaveLength(8);
    expect(waiting).toBe(8);
  });
});
