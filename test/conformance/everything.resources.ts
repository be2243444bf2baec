import { Injectable } from '@nestjs/common';
import type { GetPromptResult } from '@modelcontextprotocol/server';
import { Complete, McpArgs, Prompt, Resource, ResourceTemplate } from 'nestjs-mcp-streamable';
import { z } from 'zod';
import { PNG } from './everything.data.js';

@Injectable()
export class EverythingResources {
  @Resource({
    uri: 'test://static-text',
    name: 'static-text',
    description: 'A text that never changes',
    mimeType: 'text/plain',
  })
  staticText(): string {
    return 'This is the content of the static text resource.';
  }

  @Resource({
    uri: 'test://static-binary',
    name: 'static-binary',
    description: 'An image that never changes',
    mimeType: 'image/png',
  })
  staticBinary(): Buffer {
    return Buffer.from(PNG, 'base64');
  }

  @Resource({
    uri: 'test://watched-resource',
    name: 'watched-resource',
    description: 'A resource to subscribe to',
    mimeType: 'text/plain',
  })
  watched(): string {
    return 'Watched resource content.';
  }

  @ResourceTemplate({
    uriTemplate: 'test://template/{id}/data',
    name: 'template',
    description: 'Data by id',
    mimeType: 'application/json',
  })
  template(@McpArgs('id') id: string): string {
    return JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` });
  }
}

const two = z.object({ arg1: z.string().describe('First'), arg2: z.string().describe('Second') });

@Injectable()
export class EverythingPrompts {
  @Prompt({ name: 'test_simple_prompt', description: 'A prompt without arguments' })
  simple(): string {
    return 'This is a simple prompt for testing.';
  }

  @Prompt({ name: 'test_prompt_with_arguments', description: 'A prompt with two arguments', inputSchema: two })
  withArguments(@McpArgs() { arg1, arg2 }: z.infer<typeof two>): string {
    return `Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`;
  }

  @Complete({ prompt: 'test_prompt_with_arguments', argument: 'arg1' })
  complete(value: string): string[] {
    return ['test', 'testing', 'tested'].filter((word) => word.startsWith(value));
  }

  @Prompt({
    name: 'test_prompt_with_embedded_resource',
    description: 'A prompt with a resource in it',
    inputSchema: z.object({ resourceUri: z.string() }),
  })
  withResource(@McpArgs('resourceUri') uri: string): GetPromptResult {
    const resource = { uri, mimeType: 'text/plain', text: 'Embedded resource content for testing.' };
    return {
      messages: [
        { role: 'user', content: { type: 'resource', resource } },
        { role: 'user', content: { type: 'text', text: 'Please process the embedded resource above.' } },
      ],
    };
  }

  @Prompt({ name: 'test_prompt_with_image', description: 'A prompt with an image' })
  withImage(): GetPromptResult {
    return {
      messages: [
        { role: 'user', content: { type: 'image', data: PNG, mimeType: 'image/png' } },
        { role: 'user', content: { type: 'text', text: 'Please analyze the image above.' } },
      ],
    };
  }
}
