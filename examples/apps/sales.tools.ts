import { Injectable, NotFoundException } from '@nestjs/common';
import { AppView, McpArgs, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';
import { CHART } from './chart.view.js';

const Year = z.object({ year: z.number().int().describe('Such as 2026') });
const Sales = z.object({ year: z.number(), months: z.array(z.object({ month: z.string(), sold: z.number() })) });

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun'];
const SOLD: Readonly<Record<number, readonly number[]>> = {
  2025: [21, 25, 19, 32, 38, 35],
  2026: [30, 34, 28, 45, 52, 61],
};

@Injectable()
export class SalesTools {
  /** It reaches nothing on the network, so its sandbox need not allow anything. */
  @AppView({ uri: 'ui://sales/chart', title: 'Sales by month', prefersBorder: true })
  chart(): string {
    return CHART;
  }

  @Tool({
    name: 'show_sales',
    title: 'Show the sales',
    description: 'Shows the sales of a year by month, as a chart',
    inputSchema: Year,
    outputSchema: Sales,
    annotations: { readOnlyHint: true },
    ui: 'ui://sales/chart',
  })
  show(@McpArgs() { year }: z.infer<typeof Year>): z.infer<typeof Sales> {
    const sold = SOLD[year];
    if (!sold) throw new NotFoundException(`There are no sales of ${year}. Ask for 2025 or 2026.`);
    return { year, months: MONTHS.map((month, at) => ({ month, sold: sold[at]! })) };
  }
}
