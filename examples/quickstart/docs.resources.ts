import { Inject, Injectable } from '@nestjs/common';
import { Complete, McpArgs, ResourceTemplate } from 'nestjs-mcp-streamable';
import { DocsService } from './docs.service.js';
import { DOCS_TEMPLATE } from './docs.uri.js';

/** Documents by their URI. Those that a list shows are registered by `DocsCatalog`. */
@Injectable()
export class DocsResources {
  constructor(@Inject(DocsService) private readonly docs: DocsService) {}

  @ResourceTemplate({
    uriTemplate: DOCS_TEMPLATE,
    name: 'document',
    title: 'A document',
    mimeType: 'text/markdown',
  })
  read(@McpArgs('name') name: string): Promise<string> {
    return this.docs.read(name);
  }

  @Complete({ template: DOCS_TEMPLATE, argument: 'name' })
  async names(value: string): Promise<string[]> {
    const docs = await this.docs.list();
    return docs.map(({ name }) => name).filter((name) => name.includes(value));
  }
}
