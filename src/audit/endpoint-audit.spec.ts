import { expect, it } from 'vitest';
import { EndpointAudit } from './endpoint-audit.js';

it('an audit that must record each call refuses one whose record it cannot make', () => {
  const clock = { now: () => 0 };
  const audit = new EndpointAudit({ clock } as never, {} as never, {} as never, { required: true } as never);
  const client = {
    get clientInfo(): object {
      throw new Error('It has no name.');
    },
  };
  const hooks = audit.call({ method: 'tools/call', message: {}, client } as never);
  expect(() => hooks.around!(() => 'served')).toThrow('It has no name.');
  expect(() => hooks.admit!()).toThrow('It has no name.');
});
