// #region services
import { Injectable, Module } from '@nestjs/common';
import { InjectMcp, McpSessionService, McpStreamableModule } from 'nestjs-mcp-streamable';

@Injectable()
export class Dashboard {
  constructor(
    @InjectMcp(McpSessionService, 'public') readonly visitors: McpSessionService,
    @InjectMcp(McpSessionService, 'staff') readonly staff: McpSessionService,
  ) {}
}
// #endregion

@Module({
  imports: [
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
  providers: [Dashboard],
})
export class AppModule {}
