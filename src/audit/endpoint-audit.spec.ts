import { Logger } from '@nestjs/common';
import { expect, it, vi } from 'vitest';
import { EndpointAudit } from './endpoint-audit.js';

const hooksOf = (options: object) => {
  const clock = { now: () => 0 };
  const audit = new EndpointAudit({ clock, nodes: {} } as never, {} as never, {} as never, options as never);
  const client = {
    get clientInfo(): object {
      throw new Error('It has no name.');
    },
  };
  return audit.call({ method: 'tools/call', message: {}, client } as never);
};

it('an audit that must record each call refuses one whose record it cannot make', () => {
  expect(() => hooksOf({ required: true }).admit!()).toThrow('It has no name.');
});

it('an audit that need not record each call reports one whose record it cannot make, and refuses none', () => {
  const reported = vi.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
  expect(hooksOf({ required: false }).admit!()).toBeUndefined();
  expect(reported).toHaveBeenCalledOnce();
  reported.mockRestore();
});
