// #region files
import { Injectable } from '@nestjs/common';
import { file, image, type McpContent, McpArgs, text, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';

const Year = z.object({ year: z.int() });

@Injectable()
export class ChartTools {
  @Tool({
    name: 'sales_chart',
    description: 'Draws the sales of a year',
    inputSchema: Year,
  })
  chart(@McpArgs() { year }: z.infer<typeof Year>): McpContent[] {
    const line = '<path d="M0 9 3 4 6 6 9 0"/>';
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">${line}</svg>`;
    return [text(`Sales of ${year}:`), image(Buffer.from(svg))];
  }

  @Tool({ name: 'price_list', description: 'The price list' })
  prices(): McpContent {
    return file('assets/prices.csv', { uri: 'prices://current' });
  }
}
// #endregion
