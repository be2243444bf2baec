import { describe, expect, it } from 'vitest';
import { RequestedSchemas } from './question.js';

const schema = (name: string) => ({
  type: 'object' as const,
  properties: { [name]: { type: 'string' as const } },
  required: [name],
});

describe('RequestedSchemas', () => {
  it('RequestedSchemas compiles a schema once, also when it is written down anew', () => {
    const schemas = new RequestedSchemas();
    const one = schema('a');
    const validate = schemas.getValidator(one);
    expect(schemas.getValidator(one)).toBe(validate);
    expect(schemas.getValidator(schema('a'))).toBe(validate);
    expect(validate({ a: 'x' }).valid).toBe(true);
    expect(validate({ a: 1 })).toMatchObject({ valid: false });
  });

  it('RequestedSchemas knows what it was given, whatever becomes of the object', () => {
    const schemas = new RequestedSchemas();
    const changing = schema('a');
    const validate = schemas.getValidator(changing);
    changing.required.push('b');
    expect(validate({ a: 'x' }).valid).toBe(true);
    expect(schemas.getValidator({ ...changing })({ a: 'x' }).valid).toBe(false);
  });

  it('RequestedSchemas starts over when there are too many', () => {
    const schemas = new RequestedSchemas(10);
    const first = schema('first');
    const validate = schemas.getValidator(first);
    for (let n = 0; n < 100; n++) schemas.getValidator(schema(`field${n}`));
    expect(schemas.getValidator(first)).not.toBe(validate);
    expect(schemas.getValidator(first)({ first: 'x' }).valid).toBe(true);
  });

  it('RequestedSchemas takes two schemas with the same $id for what they are', () => {
    const schemas = new RequestedSchemas();
    expect(schemas.getValidator({ $id: 'x', ...schema('a') })({ a: 'x' }).valid).toBe(true);
    expect(schemas.getValidator({ $id: 'x', ...schema('b') })({ a: 'x' }).valid).toBe(false);
  });

  it('RequestedSchemas says so when it is no schema', () => {
    expect(() => new RequestedSchemas().getValidator({ type: 'nonsense' })).toThrow('type');
  });
});
