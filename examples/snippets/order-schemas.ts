import { Injectable } from '@nestjs/common';
// #region libraries
import { toStandardJsonSchema } from '@valibot/to-json-schema';
import { type } from 'arktype';
import { McpArgs, Tool } from 'nestjs-mcp-streamable';
import * as v from 'valibot';
import { z } from 'zod';

const ZodOrder = z.object({
  item: z.string().min(1),
  count: z.int().positive().default(1),
});
const ArkOrder = type({ item: 'string > 0', count: 'number = 1' });
const ValibotOrder = v.object({ item: v.string(), count: v.optional(v.number(), 1) });
const JsonOrder = {
  type: 'object',
  properties: {
    item: { type: 'string', minLength: 1 },
    count: { type: 'integer', default: 1 },
  },
  required: ['item'],
} as const;

@Injectable()
export class SchemaTools {
  @Tool({ name: 'order_zod', inputSchema: ZodOrder })
  zod(@McpArgs() { item, count }: z.infer<typeof ZodOrder>): string {
    return `${count} × ${item}`;
  }

  @Tool({ name: 'order_arktype', inputSchema: ArkOrder })
  arktype(@McpArgs() { item, count }: typeof ArkOrder.infer): string {
    return `${count} × ${item}`;
  }

  @Tool({ name: 'order_valibot', inputSchema: toStandardJsonSchema(ValibotOrder) })
  valibot(@McpArgs() { item, count }: v.InferOutput<typeof ValibotOrder>): string {
    return `${count} × ${item}`;
  }

  @Tool({ name: 'order_json', inputSchema: JsonOrder })
  json(@McpArgs() { item, count }: { item: string; count?: number }): string {
    return `${count ?? 1} × ${item}`;
  }
}
// #endregion

// #region types
const Booking = z.object({ room: z.string(), nights: z.int().default(1) });
type BookingArgs = z.infer<typeof Booking>;

@Injectable()
export class BookingTools {
  /** The function of `confirm` needs no type: it has that of the schema. */
  @Tool({
    name: 'book_room',
    inputSchema: Booking,
    confirm: ({ room, nights }) => `Book ${room} for ${nights} nights?`,
  })
  book(@McpArgs() { room, nights }: BookingArgs): string {
    return `Booked ${room} for ${nights} nights.`;
  }

  @Tool({ name: 'describe_room', inputSchema: Booking.pick({ room: true }) })
  describe(@McpArgs('room') room: string): string {
    return `${room} has two beds.`;
  }
}
// #endregion

// #region param-headers
const RegionalOrder = z.object({
  item: z.string(),
  region: z.string().meta({ 'x-mcp-header': 'Region' }),
});

@Injectable()
export class RegionalTools {
  /**
   * Clients also send the region in the header `Mcp-Param-Region`, so a proxy can route
   * the call without reading the body.
   */
  @Tool({ name: 'order_in_region', inputSchema: RegionalOrder })
  order(@McpArgs() { item, region }: z.infer<typeof RegionalOrder>): string {
    return `1 × ${item} in ${region}`;
  }
}
// #endregion

// #region output
const Total = z.object({ count: z.int(), currency: z.string() });

@Injectable()
export class TotalTools {
  @Tool({ name: 'total', description: 'Counts the orders', outputSchema: Total })
  total(): z.infer<typeof Total> {
    return { count: 2, currency: 'EUR' };
  }
}
// #endregion

// #region list
@Injectable()
export class OrderIdTools {
  @Tool({
    name: 'order_ids',
    description: 'Lists order ids',
    outputSchema: z.array(z.string()),
  })
  ids(): string[] {
    return ['A-1042'];
  }
}
// #endregion
