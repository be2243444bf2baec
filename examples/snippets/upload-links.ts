import { Inject, Injectable, NotFoundException } from '@nestjs/common';
import { McpArgs, type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';

/** Part of your app: makes links for PUT that expire, and reads what was put there. */
export abstract class Bucket {
  abstract signedPut(key: string): Promise<string>;
  abstract read(key: string): Promise<Uint8Array | undefined>;
}

// #region upload
const Uploaded = z.object({ file: z.uuid() });
const keyOf = ({ principal }: McpContext, file: string) => `${principal}/${file}`;

@Injectable()
export class Documents {
  constructor(@Inject(Bucket) private readonly bucket: Bucket) {}

  @Tool({ name: 'upload_link', description: 'Makes a link to PUT one document to' })
  async link(@McpCtx() ctx: McpContext): Promise<object> {
    const file = crypto.randomUUID();
    return { file, url: await this.bucket.signedPut(keyOf(ctx, file)) };
  }

  @Tool({ name: 'count_words', inputSchema: Uploaded })
  async count(@McpArgs('file') file: string, @McpCtx() ctx: McpContext): Promise<number> {
    const bytes = await this.bucket.read(keyOf(ctx, file));
    if (!bytes) throw new NotFoundException('PUT the document to its link first.');
    return new TextDecoder().decode(bytes).split(/\s+/).length;
  }
}
// #endregion
