// #region endpoints
import { Injectable, Module } from '@nestjs/common';
import { McpHandlers, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';

@Injectable()
@McpHandlers({ endpoint: 'staff' })
export class StaffTools {
  @Tool({ name: 'revenue', description: 'Says what was earned' })
  revenue(): string {
    return '42 EUR';
  }
}

/** This class names no endpoint: the module decides where it is served. */
@Injectable()
export class OpeningHours {
  @Tool({ name: 'opening_hours', description: 'Says when the shop is open' })
  hours(): string {
    return '9 to 5';
  }
}

@Module({
  imports: [
    McpStreamableModule.forFeature([OpeningHours], 'public'),
    McpStreamableModule.forFeature([OpeningHours], 'staff'),
  ],
  providers: [StaffTools, OpeningHours],
})
export class ShopModule {}

@Module({
  imports: [
    ShopModule,
    McpStreamableModule.forRoot({
      name: 'public',
      path: 'mcp',
      serverInfo: { name: 'shop', version: '1.0.0' },
    }),
    McpStreamableModule.forRoot({
      name: 'staff',
      path: 'staff/mcp',
      serverInfo: { name: 'office', version: '1.0.0' },
    }),
  ],
})
export class AppModule {}
// #endregion
