import { Injectable, UseGuards, ValidationPipe } from '@nestjs/common';
import { Type } from 'class-transformer';
import { IsEmail, IsInt, IsString, Max, ValidateNested } from 'class-validator';
import { type McpHandlerSchema, McpArgs, Prompt, Tool } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { officialClients, testApps } from '../support/test-apps.js';
import { messageOf } from '../support/kinds.js';
import { decidesByArguments } from '../support/users.js';

const SECRET = 'hunter2';
const INSIDES = /hunter2|node:internal|node_modules|\.[jt]s:\d+|^\s*at |\\n\s*at |zod/im;

const zodSchema = z.object({
  email: z.email('must be an email address'),
  address: z.object({ street: z.string(), floors: z.array(z.number().max(9)) }).optional(),
});
const jsonSchema = {
  type: 'object',
  properties: { email: { type: 'string', minLength: 5 } },
  required: ['email'],
  additionalProperties: false,
} as const;
/** Says something of the server when it fails. */
const failingSchema = z.object({
  email: z.string().transform(() => {
    throw new Error(SECRET);
  }),
});

class Address {
  @IsString()
  street!: string;
  @IsInt()
  @Max(9)
  floor!: number;
}
class OrderDto {
  @IsEmail({}, { message: 'email must be an email address' })
  email!: string;
  @ValidateNested()
  @Type(() => Address)
  address?: Address;
}
class EmailDto {
  @IsEmail({}, { message: 'email must be an email address' })
  email!: string;
}

let ran = 0;

@Injectable()
class Forms {
  @Tool({ name: 'zod', inputSchema: zodSchema })
  zod(@McpArgs() _args: object): string {
    return `ran ${++ran}`;
  }
  @Tool({ name: 'json', inputSchema: jsonSchema })
  json(@McpArgs() _args: object): string {
    return `ran ${++ran}`;
  }
  @Tool({ name: 'dto', inputSchema: OrderDto })
  dto(@McpArgs() _args: OrderDto): string {
    return `ran ${++ran}`;
  }
  @Tool({ name: 'failing', inputSchema: failingSchema })
  failing(@McpArgs() _args: object): string {
    return `ran ${++ran}`;
  }
  @Tool({ name: 'piped' })
  piped(@McpArgs(new ValidationPipe()) _args: OrderDto): string {
    return `ran ${++ran}`;
  }
  @Tool({ name: 'denied', inputSchema: zodSchema })
  @UseGuards({
    canActivate: (context) => {
      decidesByArguments(context);
      return false;
    },
  })
  denied(@McpArgs() _args: object): string {
    return `ran ${++ran}`;
  }
  @Prompt({ name: 'zod', inputSchema: z.object({ email: z.email('must be an email address') }) })
  zodPrompt(@McpArgs() _args: object): string {
    return `ran ${++ran}`;
  }
  @Prompt({ name: 'list', arguments: [{ name: 'email', required: true }] })
  listPrompt(@McpArgs() _args: object): string {
    return `ran ${++ran}`;
  }
  @Prompt({ name: 'dto', inputSchema: EmailDto })
  dtoPrompt(@McpArgs() _args: EmailDto): string {
    return `ran ${++ran}`;
  }
  @Prompt({ name: 'failing', inputSchema: failingSchema })
  failingPrompt(@McpArgs() _args: object): string {
    return `ran ${++ran}`;
  }

  @Tool({ name: 'output', outputSchema: z.object({ total: z.number() }) as McpHandlerSchema })
  output(): object {
    return { total: SECRET };
  }
  @Tool({ name: 'unstructured', outputSchema: z.object({ total: z.number() }) })
  unstructured(): { content: { type: 'text'; text: string }[] } {
    return { content: [{ type: 'text', text: SECRET }] };
  }
}

/** Arguments that are wrong, and what the model or the user is told of them. */
const WRONG: [string, object, RegExp[]][] = [
  ['zod', {}, [/email: must be an email address/]],
  ['zod', { email: 'a@b.example', address: { street: 5, floors: [1, 12] } }, [/address\.street/, /address\.floors\.1/]],
  ['json', { email: 5 }, [/email: must be string/]],
  ['json', { email: 'a@b.example', other: 1 }, [/must NOT have additional properties/]],
  ['dto', { email: 'x' }, [/email must be an email address/]],
  [
    'dto',
    { email: 'a@b.example', address: { street: 'x', floor: 12 } },
    [/address\.floor.*must not be greater than 9/],
  ],
  ['piped', { email: 'x' }, [/email must be an email address/]],
];
const WRONG_PROMPTS: [string, object, RegExp][] = [
  ['zod', { email: 'x' }, /email: must be an email address/],
  ['list', {}, /email: is missing/],
  ['dto', { email: 'x' }, /email must be an email address/],
];

describe.each(ONE_ADAPTER)('arguments and results that do not fit, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [Forms], errorDetails: false });
  const connect = officialClients();

  const ask = async (app: TestApp, kind: 'tool' | 'prompt', name: string, args: object) => {
    const client = await app.client().initialize();
    const response = await client.post(messageOf(client, kind, name, args));
    expect(response.status).toBe(200);
    const text = await response.text();
    expect(text).not.toMatch(INSIDES);
    return JSON.parse(text);
  };

  it('arguments that do not fit give the model the reason, and the tool does not run', async () => {
    const app = await start();
    const before = ran;
    for (const [name, args, texts] of WRONG) {
      const { result } = await ask(app, 'tool', name, args);
      expect(result).toEqual({ content: [{ type: 'text', text: expect.any(String) }], isError: true });
      for (const text of texts) expect(result.content[0].text).toMatch(text);
    }
    expect(ran).toBe(before);
    expect(app.log.texts('error')).toEqual([]);
  });

  it('arguments that do not fit give the user of a prompt the reason, and the prompt does not run', async () => {
    const app = await start();
    const before = ran;
    for (const [name, args, text] of WRONG_PROMPTS) {
      const { error } = await ask(app, 'prompt', name, args);
      expect(error).toEqual({ code: -32602, message: expect.stringMatching(text) });
    }
    expect(ran).toBe(before);
    expect(app.log.texts('error')).toEqual([]);
  });

  it('arguments and results that do not fit are not reported to callers that may not call', async () => {
    const app = await start();
    const client = await app.client().initialize();
    const response = await client.call('denied', {});
    const text = await response.text();
    expect([response.status, text]).toEqual([200, expect.stringContaining('"isError":true')]);
    expect(text).not.toContain('email');
  });

  it('arguments and results that do not fit send no details of a schema that fails', async () => {
    const app = await start();
    for (const kind of ['tool', 'prompt'] as const) {
      const { result, error } = await ask(app, kind, 'failing', { email: 'x' });
      const text = `Internal error in the ${kind} "failing". See the server log.`;
      if (kind === 'tool') expect(result).toEqual({ content: [{ type: 'text', text }], isError: true });
      else expect(error).toEqual({ code: -32603, message: text });
    }
    expect(app.log.texts('error')).toHaveLength(2);
    expect(app.log.texts('error').join()).toContain(SECRET);
  });

  it('arguments and results that do not fit send no details of a result that fails its schema', async () => {
    const app = await start();
    for (const name of ['output', 'unstructured']) {
      const { result } = await ask(app, 'tool', name, {});
      const text = `Internal error in the tool "${name}". See the server log.`;
      expect(result).toEqual({ content: [{ type: 'text', text }], isError: true });
    }
    const [output, unstructured] = app.log.texts('error');
    expect(output).toMatch(/does not match its output schema[^]*total/);
    expect(unstructured).toMatch(/no structured content/);
  });

  it('arguments and results that do not fit reach an official client as failed tools and as errors of prompts', async () => {
    const app = await start();
    const client = await connect(app);
    const { isError, content } = await client.callTool({ name: 'zod', arguments: { email: 'x' } });
    expect([isError, content]).toEqual([true, [expect.objectContaining({ type: 'text' })]]);
    const prompt = client.getPrompt({ name: 'zod', arguments: { email: 'x' } });
    await expect(prompt).rejects.toMatchObject({ code: -32602 });
    const output = await client.callTool({ name: 'output', arguments: {} });
    expect(output.isError).toBe(true);
  });
});
