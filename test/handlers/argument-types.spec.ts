import { Body, Controller, Injectable, ParseIntPipe, Post, type Type, UsePipes, ValidationPipe } from '@nestjs/common';
import { APP_PIPE } from '@nestjs/core';
import { type as arktype } from 'arktype';
import { IsString } from 'class-validator';
import {
  ListResources,
  McpArgs,
  McpStreamableModule,
  Prompt,
  Resource,
  ResourceTemplate,
  Tool,
} from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER, TestApp, serverInfo, startFailure } from '../support/app.js';

const Id = z.object({ id: z.string() });
const idJson = { type: 'object', properties: { id: { type: 'string' } } };

class IdDto {
  @IsString()
  id!: string;
}

@Injectable()
class OfZod {
  @Tool({ name: 'find', inputSchema: Id })
  find(@McpArgs('id') id: number): number {
    return id;
  }
}
@Injectable()
class OfArkType {
  @Tool({ name: 'find', inputSchema: arktype({ id: 'string' }) })
  find(@McpArgs('id') id: boolean): boolean {
    return id;
  }
}
@Injectable()
class OfJson {
  @Tool({ name: 'find', inputSchema: idJson })
  find(@McpArgs('id') id: string[]): string {
    return id.join();
  }
}
@Injectable()
class OfClass {
  @Tool({ name: 'find' })
  find(@McpArgs() all: IdDto, @McpArgs('id') id: number): string {
    return all.id + id;
  }
}
@Injectable()
class OfCoercion {
  @Tool({ name: 'find', inputSchema: z.object({ id: z.string().transform(Number).pipe(z.number()) }) })
  find(@McpArgs('id') id: string): string {
    return id;
  }
}
@Injectable()
class OfPrompt {
  @Prompt({ name: 'ask', arguments: [{ name: 'id' }] })
  ask(@McpArgs('id') id: number): string {
    return String(id);
  }
}
@Injectable()
class OfTemplate {
  @ResourceTemplate({ uriTemplate: 'orders://{id}', name: 'order' })
  order(@McpArgs('id') id: number): string {
    return String(id);
  }
}
@Injectable()
class OfResource {
  @Resource({ uri: 'orders://all', name: 'orders' })
  orders(@McpArgs('uri') id: number): string {
    return String(id);
  }
}
@Injectable()
class OfListing {
  @ResourceTemplate({ uriTemplate: 'orders://{id}', name: 'order' })
  order(): void {}
  @ListResources('orders://{id}')
  list(@McpArgs('limit') id: string): [] {
    return id === '' ? [] : [];
  }
}
@Injectable()
@UsePipes(new ValidationPipe({ transform: true }))
class OfValidated {
  @Tool({ name: 'find', inputSchema: Id })
  find(@McpArgs('id') id: number): number {
    return id;
  }
}
@Controller()
class OfRoute {
  @Post('find')
  @Tool({ name: 'find', inputSchema: Id })
  find(@Body('id') id: number): number {
    return id;
  }
}

/** Each method gets a value of its type. */
@Injectable()
class Fitting {
  @Tool({ name: 'piped', inputSchema: Id })
  piped(@McpArgs('id', ParseIntPipe) id: number): number {
    return id;
  }
  @Tool({ name: 'around', inputSchema: Id })
  @UsePipes(ParseIntPipe)
  around(@McpArgs('id') id: number): number {
    return id;
  }
  @Tool({ name: 'coerced', inputSchema: z.object({ id: z.coerce.number(), days: z.int() }) })
  coerced(@McpArgs('id') id: number, @McpArgs('days') days: number): number {
    return id + days;
  }
  @Tool({ name: 'transformed', inputSchema: z.object({ id: z.string().transform(Number), day: z.string() }) })
  transformed(@McpArgs('id') id: number, @McpArgs('day') day: string): string {
    return day + id;
  }
  @Tool({ name: 'nullable', inputSchema: z.object({ id: z.string().nullable(), tags: z.array(z.string()) }) })
  nullable(@McpArgs('id') id: string | null, @McpArgs('tags') tags: string[]): string {
    return String(id) + tags.join();
  }
  @Tool({ name: 'either', inputSchema: z.object({ id: z.union([z.string(), z.number()]) }) })
  either(@McpArgs('id') id: string | number): string {
    return String(id);
  }
  @Tool({ name: 'dto' })
  dto(@McpArgs() all: IdDto, @McpArgs('id') id: string): string {
    return all.id + id;
  }
  @ResourceTemplate({ uriTemplate: 'files://{id}{/path*}', name: 'file' })
  file(@McpArgs('id') id: string, @McpArgs('path') path: string[]): string {
    return id + path.join('/');
  }
}

const moduleOf = (provider: Type, ...others: object[]) => ({
  imports: [McpStreamableModule.forRoot({ serverInfo })],
  providers: [provider, ...others] as Type[],
});

describe.each(ONE_ADAPTER)('the type of a parameter that takes one argument, on %s', (adapter) => {
  it.each<[string, Type, string]>([
    ['a Zod schema', OfZod, '"id", and has the type Number, while the method gets: string.'],
    ['an ArkType', OfArkType, '"id", and has the type Boolean, while the method gets: string.'],
    ['a JSON Schema', OfJson, '"id", and has the type Array, while the method gets: string.'],
    ['a class', OfClass, '"id", and has the type Number, while the method gets: string.'],
    ['what a schema makes of an argument', OfCoercion, '"id", and has the type String, while the method gets: number.'],
    ['the list of a prompt', OfPrompt, '"id", and has the type Number, while the method gets: string.'],
    ['the variable of a template', OfTemplate, '"id", and has the type Number, while the method gets: string, array.'],
    ['the URI of a resource', OfResource, '"uri", and has the type Number, while the method gets: string.'],
    ['the limit of a list', OfListing, '"limit", and has the type String, while the method gets: number.'],
    ['a schema behind a ValidationPipe', OfValidated, '"id", and has the type Number, while the method gets: string.'],
  ])('a type that contradicts %s stops the start', async (_schema, provider, text) => {
    const { message } = await startFailure(adapter, () => moduleOf(provider));
    expect(message).toContain(text);
  });

  it('a type that contradicts the schema of a route stops the start', async () => {
    const module = { imports: [McpStreamableModule.forRoot({ serverInfo })], controllers: [OfRoute] };
    const { message } = await startFailure(adapter, () => module);
    expect(message).toContain('"id", and has the type Number, while the method gets: string.');
  });

  it('a type that fits, or that a pipe or the schema makes, does not stop the start', async () => {
    const app = await TestApp.of(adapter, moduleOf(Fitting));
    await app.close();
  });

  it('a type does not stop the start of an app with a pipe of its own', async () => {
    class OwnPipe extends ValidationPipe {}
    for (const useValue of [{ transform: Number }, new OwnPipe()]) {
      const app = await TestApp.of(adapter, moduleOf(OfZod, { provide: APP_PIPE, useValue }));
      await app.close();
    }
  });
});
