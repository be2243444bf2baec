import { Inject, Injectable } from '@nestjs/common';
import { Tool, type ToolEvent, toolProgress } from 'nestjs-mcp-streamable';

/** Part of your app: a model that answers word by word. */
export abstract class Writer {
  abstract write(about: string): AsyncIterable<string>;
}

// #region parts
@Injectable()
export class Summaries {
  constructor(@Inject(Writer) private readonly writer: Writer) {}

  @Tool({ name: 'summarise', description: 'Summarises the sales of the week' })
  async *summarise(): AsyncIterable<ToolEvent<string>> {
    let text = '';
    for await (const part of this.writer.write('the sales of the week')) {
      text += part;
      yield toolProgress(text.length, undefined, part); // for the user
    }
    yield text; // the result, for the model
  }
}
// #endregion
