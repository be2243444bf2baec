// #region view
import { Injectable } from '@nestjs/common';
import { AppView, McpArgs, Tool } from 'nestjs-mcp-streamable';
import { readFile } from 'node:fs/promises';
import { z } from 'zod';

const Year = z.object({ year: z.number().int() });

@Injectable()
export class SalesTools {
  @AppView({
    uri: 'ui://sales/chart',
    csp: { resourceDomains: ['https://cdn.jsdelivr.net'] },
  })
  chart(): Promise<string> {
    return readFile('views/chart.html', 'utf8');
  }

  @Tool({
    name: 'show_sales',
    description: 'Sales of a year',
    inputSchema: Year,
    ui: 'ui://sales/chart',
  })
  show(@McpArgs('year') year: number): object {
    return { year, months: [30, 34, 28, 45, 52, 61] };
  }
}
// #endregion
