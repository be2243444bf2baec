// #region service
import { Injectable } from '@nestjs/common';
import { InjectMcp, McpClient } from 'nestjs-mcp-streamable/client';
import { map, type Observable } from 'rxjs';

@Injectable()
export class Purchasing {
  constructor(@InjectMcp(McpClient, 'orders') private readonly orders: McpClient) {}

  /** The first use connects. */
  async tools(): Promise<string[]> {
    const client = await this.orders.client(); // the official `Client`, connected
    const { tools } = await client.listTools();
    return tools.map(({ name }) => name);
  }

  /** Emits progress, then the result. Unsubscribing cancels the export on the server. */
  export$(): Observable<string> {
    return this.orders
      .callTool$('export_orders')
      .pipe(
        map((event) =>
          event.type === 'progress'
            ? `${event.progress} rows`
            : JSON.stringify(event.result.content),
        ),
      );
  }
}
// #endregion
